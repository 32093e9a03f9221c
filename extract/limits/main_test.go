//go:build linux

package limits

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// The test binary plays every process of these tests: its first argument, if it is one of these, is the role.
func TestMain(m *testing.M) {
	roles := map[string]func([]string) error{
		"exec":    anyThread,
		"hang":    hang,
		"spin":    spin,
		"write":   write,
		"open":    open,
		"env":     func([]string) error { _, err := fmt.Fprintln(os.Stdout, os.Environ()); return err },
		"fds":     descriptors,
		"parent":  parent,
		"forks":   forks,
		"leave":   leave,
		"until":   func([]string) error { _, err := io.Copy(io.Discard, os.NewFile(3, "until")); return err },
		"allowed": allowed,
	}
	if len(os.Args) > 1 {
		if play, ok := roles[os.Args[1]]; ok {
			if err := play(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(ExitConfig)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// anyThread calls Exec from a thread that is not the process's first.
func anyThread(args []string) error {
	runtime.LockOSThread()
	err := make(chan error)
	go func() { err <- Exec(args, 3) }()
	return <-err
}

func spin([]string) error {
	for n := 0; ; n++ {
	}
}

// allowed spins on a little CPU time twice, more in sum than was allowed at first, and then on too much.
func allowed([]string) error {
	if err := (Limits{}).Apply(); err != nil {
		return err
	}
	for _, until := range []time.Duration{700 * time.Millisecond, 1200 * time.Millisecond} {
		if err := AllowCPU(500 * time.Millisecond); err != nil {
			return err
		}
		for used() < until {
		}
	}
	fmt.Fprintln(os.Stdout, "twice")
	return spin(nil)
}

func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func write(args []string) error {
	_, err := fmt.Fprintln(os.Stdout, os.WriteFile(args[0], []byte("x"), 0o600))
	return err
}

func open([]string) error {
	var files []*os.File
	for range 100 {
		f, err := os.Open("/dev/null")
		if err != nil {
			_, err = fmt.Fprintln(os.Stdout, len(files) > 5, err)
			return err
		}
		files = append(files, f)
	}
	fmt.Fprintln(os.Stdout, "no limit")
	return nil
}

// descriptors prints those that came with the process.
func descriptors([]string) error {
	for fd := range 100 {
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
		if errno == 0 && flags&syscall.FD_CLOEXEC == 0 {
			fmt.Fprint(os.Stdout, fd, " ")
		}
	}
	return nil
}

// hang speaks and stays.
func hang([]string) error {
	fmt.Fprintln(os.Stdout, "here")
	return syscall.Pause()
}

// parent starts a process that holds descriptor 3 and speaks, and waits for it.
func parent(args []string) error {
	cmd := exec.Command(os.Args[0], args...)
	cmd.ExtraFiles = []*os.File{os.NewFile(3, "held")}
	cmd.Stdout = os.Stdout
	p, err := Start(cmd)
	if err != nil {
		return err
	}
	<-p.Done()
	return p.err
}

// forks starts many processes in its group that hold its descriptors for ever, and exits.
func forks([]string) error {
	for range 20 {
		cmd := exec.Command(os.Args[0], "hang")
		cmd.Stderr = os.Stderr
		cmd.ExtraFiles = []*os.File{os.NewFile(3, "held")}
		if err := cmd.Start(); err != nil {
			return err
		}
	}
	fmt.Fprintln(os.Stdout, "started")
	return nil
}

// leave starts a process in a session of its own that holds stdout until descriptor 3 ends.
func leave([]string) error {
	cmd := exec.Command(os.Args[0], "until")
	cmd.Stdout = os.Stdout
	cmd.ExtraFiles = []*os.File{os.NewFile(3, "until")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}
