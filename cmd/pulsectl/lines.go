package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// lineBytesMax bounds a line of input, far above what a broker takes as one message.
const lineBytesMax = 64 << 20

// lineReader reads lines of any bytes. A line is what ends with a newline, or
// what is left at the end of the input.
type lineReader struct {
	in     *bufio.Reader
	long   []byte // gathers a line that is larger than the reader's buffer
	number int    // of the line returned last, from 1
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(r, 1<<20)}
}

// next returns a line without its newline, valid until the next call; io.EOF
// when there is none.
func (l *lineReader) next() ([]byte, error) {
	l.long = l.long[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		if err == nil && len(l.long) == 0 {
			l.number++
			return part[:len(part)-1], nil
		}
		l.long = append(l.long, part...)
		switch {
		case err == nil:
			l.number++
			return l.long[:len(l.long)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
			if len(l.long) > lineBytesMax {
				return nil, fmt.Errorf("line %d is longer than %d bytes", l.number+1, lineBytesMax)
			}
		case errors.Is(err, io.EOF) && len(l.long) > 0:
			l.number++
			return l.long, nil
		default:
			return nil, err
		}
	}
}
