//go:build linux

package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/guyline/guyline/extract/limits"
	"github.com/guyline/guyline/report"
)

// The test binary plays every process of these tests: its first argument, if it is one of these, is the role.
func TestMain(m *testing.M) {
	roles := map[string]func(args []string) error{
		"exec":       func(args []string) error { return limits.Exec(args, 3) },
		"good":       good,
		"look":       look,
		"print":      printFile,
		"flood":      flood,
		"floodExit":  floodExit,
		"dieOnce":    dieOnce,
		"spin":       spin,
		"hold":       hold,
		"stubborn":   stubborn,
		"grandchild": grandchild,
		"forks":      forks,
		"worker":     worker,
	}
	if len(os.Args) > 1 {
		if play, ok := roles[os.Args[1]]; ok {
			if err := play(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(limits.ExitConfig)
			}
			os.Exit(0)
		}
	}
	os.Setenv("AWS_SECRET_ACCESS_KEY", "a secret of the worker")
	os.Setenv("GUYLINE_NATS_URL", "nats://secret@localhost")
	os.Setenv("LANG", "C.UTF-8")
	os.Exit(m.Run())
}

// good says what it has been given. It reads the file twice by its path, and once from the descriptor.
func good([]string) error {
	var ev map[string]any
	if err := json.NewDecoder(os.Stdin).Decode(&ev); err != nil {
		return err
	}
	path := os.Getenv("GUYLINE_FILE")
	once, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	twice, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	direct, err := io.ReadAll(os.NewFile(3, path))
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"event": ev, "once": string(once), "twice": string(twice), "direct": string(direct), "path": path,
	})
}

// look says what it has inherited, and leaves a file in its temporary directory.
func look([]string) error {
	if err := os.WriteFile(filepath.Join(os.TempDir(), "left"), []byte("x"), 0o600); err != nil {
		return err
	}
	var fds []int
	for fd := range 100 {
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
		if errno == 0 && flags&syscall.FD_CLOEXEC == 0 {
			fds = append(fds, fd)
		}
	}
	var names []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"fds": fds, "env": names, "temp": os.TempDir(), "group": syscall.Getpgrp() == os.Getpid()})
}

// printFile prints the file it was given, without reading the event.
func printFile([]string) error {
	_, err := io.Copy(os.Stdout, os.NewFile(3, "file"))
	return err
}

func flood([]string) error {
	b := make([]byte, 1<<20)
	for {
		os.Stdout.Write(b) // whatever comes of it
	}
}

// floodExit says megabytes of garbage, then the file, and rejects it.
func floodExit([]string) error {
	garbage := make([]byte, 1<<20)
	for i := range garbage {
		garbage[i] = byte(i * 7)
	}
	for range 5 {
		os.Stderr.Write(garbage)
	}
	if _, err := io.Copy(os.Stderr, os.NewFile(3, "file")); err != nil {
		return err
	}
	os.Exit(65)
	return nil
}

// dieOnce is killed unless the file named exists, which it then does.
func dieOnce(args []string) error {
	if _, err := os.Stat(args[0]); err == nil {
		fmt.Fprintln(os.Stdout, "{}")
		return nil
	}
	if err := os.WriteFile(args[0], nil, 0o600); err != nil {
		return err
	}
	return syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

func spin([]string) error {
	for n := 0; ; n++ {
	}
}

// hold says that it is there and stays.
func hold(args []string) error {
	if _, err := grasp(args[0]); err != nil {
		return err
	}
	return syscall.Pause()
}

func stubborn(args []string) error {
	signal.Ignore(syscall.SIGTERM, os.Interrupt, syscall.SIGHUP)
	return hold(args)
}

// grasp opens the fifo of a [pulse] and keeps it open.
func grasp(fifo string) (*os.File, error) {
	f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(".")
	}
	return f, err
}

// grandchild leaves one that holds its output, and is done.
func grandchild(args []string) error {
	if err := another(args[0]); err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, "{}")
	return nil
}

func another(fifo string) error {
	cmd := exec.Command(os.Args[0], "hold", fifo)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Start()
}

func forks(args []string) error {
	for range 20 {
		if err := another(args[0]); err != nil {
			return err
		}
	}
	return hold(args)
}

// worker inspects a file that holds it up for ever.
func worker(args []string) error {
	c, err := New(Config{Line: os.Args[0] + " hold " + args[0], Exec: []string{os.Args[0], "exec"}, TempDir: args[1]})
	if err != nil {
		return err
	}
	f, err := os.Open(os.Args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = c.Inspect(context.Background(), report.Event{SiteID: "a", SourceURI: "a.pdf"}, f)
	return err
}
