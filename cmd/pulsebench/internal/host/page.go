package host

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// pageTimeout bounds reading a metrics page, and pageBytesMax its size: with many partitions it has megabytes.
	pageTimeout  = 10 * time.Second
	pageBytesMax = 256 << 20

	settingsBytesMax = 1 << 20
)

// Page is a broker's metrics page: the series without labels, and the sums of those with labels under their name.
type Page map[string]float64

// ReadPage reads the page of an admin address.
func ReadPage(ctx context.Context, admin string) (Page, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the metrics page of %s: %s", admin, answer.Status)
	}
	return parsePage(io.LimitReader(answer.Body, pageBytesMax))
}

// ReadSettings asks a broker at its admin address for the settings that it runs with, by key.
func ReadSettings(ctx context.Context, admin string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/config", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	settings := make(map[string]string)
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the settings of the broker at %s: %s", admin, answer.Status)
	}
	return settings, json.NewDecoder(io.LimitReader(answer.Body, settingsBytesMax)).Decode(&settings)
}

func parsePage(r io.Reader) (Page, error) {
	page := make(Page)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("the metrics page says %q", line)
		}
		name, _, _ := strings.Cut(line[:at], "{")
		page[name] += value
	}
	return page, lines.Err()
}

// Usage is what the broker says that it has taken.
func (p Page) Usage() Usage {
	return Usage{
		Processor: time.Duration(p["process_cpu_seconds_total"] * float64(time.Second)),
		Resident:  int64(p["process_resident_memory_bytes"]),
	}
}
