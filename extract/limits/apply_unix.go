//go:build linux || darwin

package limits

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Apply confines the process that calls it, for good: limits can be lowered further, but not raised. A limit that
// is lower already stays. Missing limits (see [Missing]) are passed over.
func (l Limits) Apply() error {
	for _, limit := range []struct {
		name       string
		resource   int
		set        bool
		soft, hard uint64
	}{
		{"memory", syscall.RLIMIT_DATA, l.Data > 0, uint64(l.Data), uint64(l.Data)},
		{"CPU time", syscall.RLIMIT_CPU, l.CPU > 0, seconds(l.CPU), seconds(l.CPU) + 1},
		{"file size", syscall.RLIMIT_FSIZE, l.FileSize != 0, uint64(max(0, l.FileSize)), uint64(max(0, l.FileSize))},
		{"open files", syscall.RLIMIT_NOFILE, l.Files > 0, uint64(l.Files), uint64(l.Files)},
		{"core file", syscall.RLIMIT_CORE, true, 0, 0},
	} {
		if !limit.set {
			continue
		}
		if err := lower(limit.resource, limit.soft, limit.hard); err != nil {
			return fmt.Errorf("limits: limit %s to %d: %w; choose another limit", limit.name, limit.soft, err)
		}
	}
	preferAsVictim()
	return nil
}

// lower sets a limit, unless it is lower already.
func lower(resource int, soft, hard uint64) error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(resource, &now); err != nil {
		return err
	}
	return syscall.Setrlimit(resource, &syscall.Rlimit{Cur: min(soft, now.Cur), Max: min(hard, now.Max)})
}

func seconds(d time.Duration) uint64 { return uint64((d + time.Second - 1) / time.Second) }

// CloseInherited closes every descriptor above keep that the process was born with, such as one that a shell
// or supervisor left open in the worker. Descriptors that the Go program opened itself are not touched: they,
// and only they, are marked to be closed on exec.
func CloseInherited(keep int) error {
	dir, err := os.Open("/dev/fd")
	if err != nil {
		return fmt.Errorf("limits: list open descriptors: %w; mount /dev and /proc", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("limits: list open descriptors: %w; mount /dev and /proc", err)
	}
	for _, name := range names {
		var fd int
		if _, err := fmt.Sscan(name, &fd); err != nil || fd <= keep {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
	return nil
}
