//go:build linux

package main

// The command line, the mount and its orderly end.

import (
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const usage = `usage: forgetful BACKING MOUNTPOINT --ctl UNIX_SOCKET [options]
  --torn SEED         cut keeps a random subset of un-synced blocks and a random
                      prefix of each directory's un-synced operations
  --torn-block N      4096 (default) or 512
  --ext4              fsync of a file also makes its names durable
  --trash DIR         make the trash, .NAME.forgetful, in DIR: bodies without a
                      durable name (default: beside BACKING; same file system)
  --no-real-sync      do not call fsync on the backing files (faster)
  --debug             log every FUSE request
`

func main() {
	log.SetFlags(0)
	f := &FS{RawFileSystem: fuse.NewDefaultRawFileSystem(), tornBlock: 4096,
		handles: map[uint64]*handle{}, injected: map[string]int64{}, nextID: 1}
	var pos []string
	var ctl string
	debug, realSync := false, true
	args := os.Args[1:]
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		name, val, has := strings.Cut(a, "=")
		next := func() string {
			if has {
				return val
			}
			if len(args) == 0 {
				fmt.Fprint(os.Stderr, usage)
				os.Exit(2)
			}
			v := args[0]
			args = args[1:]
			return v
		}
		var err error
		switch name {
		case "--ctl":
			ctl = next()
		case "--torn":
			f.torn = true
			f.tornSeed, err = strconv.ParseInt(next(), 10, 64)
		case "--torn-block":
			f.tornBlock, err = strconv.ParseInt(next(), 10, 64)
			if err == nil && f.tornBlock != 4096 && f.tornBlock != 512 {
				err = errors.New("must be 4096 or 512")
			}
		case "--ext4":
			f.ext4 = true
		case "--trash":
			f.trash = next()
		case "--no-real-sync":
			realSync = false
		case "--debug":
			debug = true
		default:
			if strings.HasPrefix(a, "-") {
				err = errors.New("unknown option")
			}
			pos = append(pos, a)
		}
		if err != nil {
			log.Fatalf("forgetful: %s: %v", a, err)
		}
	}
	if len(pos) != 2 || ctl == "" {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	f.realSync.Store(realSync)
	unix.Umask(0)
	var rl unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &rl) == nil {
		rl.Cur = rl.Max
		unix.Setrlimit(unix.RLIMIT_NOFILE, &rl)
	}
	var err error
	if f.backing, err = filepath.Abs(pos[0]); err == nil {
		f.backing, err = filepath.EvalSymlinks(f.backing)
	}
	if err != nil {
		log.Fatalf("forgetful: %v", err)
	}
	mnt, _ := filepath.Abs(pos[1])
	if f.trash == "" {
		f.trash = filepath.Dir(f.backing)
	}
	if f.trash, err = filepath.Abs(f.trash); err != nil {
		log.Fatalf("forgetful: %v", err)
	}
	f.trash = filepath.Join(f.trash, "."+filepath.Base(f.backing)+".forgetful")
	lock, err := unix.Open(f.backing, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Flock(lock, unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		log.Fatalf("forgetful: %s: %v (served already?)", f.backing, err)
	}
	if err := f.reset(); err != nil {
		log.Fatalf("forgetful: %v", err)
	}
	var sb, st unix.Stat_t
	if unix.Stat(f.backing, &sb) != nil || unix.Stat(f.trash, &st) != nil || sb.Dev != st.Dev {
		log.Fatalf("forgetful: %s must be on the same file system as %s; use --trash", f.trash, f.backing)
	}
	os.Remove(ctl)
	l, err := net.Listen("unix", ctl)
	if err != nil {
		log.Fatalf("forgetful: %v", err)
	}
	opts := &fuse.MountOptions{
		DirectMount: true, AllowOther: os.Geteuid() == 0, FsName: "forgetful", Name: "forgetful",
		MaxWrite: maxWrite, MaxBackground: 128, DisableXAttrs: true, DisableReadDirPlus: true,
		// Without it the kernel writes the rest of a short direct write of io_uring over its beginning; with it such a
		// write is EIO at least.
		ExtraCapabilities: fuse.CAP_ASYNC_DIO, Debug: debug, Options: []string{"default_permissions"},
	}
	srv, err := fuse.NewServer(f, mnt, opts)
	if err != nil {
		l.Close()
		log.Fatalf("forgetful: mount %s: %v", mnt, err)
	}
	go srv.Serve()
	if err := srv.WaitMount(); err != nil {
		log.Fatalf("forgetful: %v", err)
	}
	go f.serveCtl(l)
	sig := make(chan os.Signal, 2)
	signal.Notify(sig, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-sig
		if err := srv.Unmount(); err != nil { // busy: detach it
			unix.Unmount(mnt, unix.MNT_DETACH)
			time.Sleep(50 * time.Millisecond)
			f.finish(l)
			os.Exit(0)
		}
	}()
	fmt.Println("ready")
	srv.Wait()
	f.finish(l)
}

// finish is an orderly unmount: what is still volatile is written out.
func (f *FS) finish(l net.Listener) {
	l.Close()
	f.big.Lock()
	defer f.big.Unlock()
	if !f.isCut {
		if err := f.syncAll(); err != nil {
			log.Printf("forgetful: flush at unmount: %v", err)
		}
	}
	f.isCut = true
	os.RemoveAll(f.trash)
}
