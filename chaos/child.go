package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
)

// The hidden commands as which the program starts itself.
const (
	WorkerCommand = "chaos-worker"
	ServerCommand = "chaos-server"
	CleanCommand  = "chaos-clean"
)

// children counts the processes that were started and not yet seen to end.
type children struct{ running atomic.Int64 }

// child is a process of this program. It dies with this process: the kernel sees to that where it can, and everywhere
// the child ends when its standard input does.
type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{}
}

// start starts this program under a hidden command, with its settings as the first line of its standard input. Its log is
// appended to a file; what it prints is read line by line.
func (c *children) start(command string, settings any, log *os.File, line func(string)) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", command, err)
	}
	first, err := json.Marshal(settings)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", command, err)
	}
	out := &child{cmd: exec.Command(self, command), ended: make(chan struct{})}
	if log != nil {
		out.cmd.Stderr = log
	}
	out.cmd.SysProcAttr = attributes(command != CleanCommand)
	stdout, err := out.cmd.StdoutPipe()
	if err == nil {
		out.stdin, err = out.cmd.StdinPipe()
	}
	if err == nil {
		err = out.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", command, err)
	}
	c.running.Add(1)
	go func() {
		defer close(out.ended)
		defer c.running.Add(-1)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			line(lines.Text())
		}
		_ = out.cmd.Wait() // how it ended is seen in its log
	}()
	return out, out.say(string(first)) // if that fails it is dead already
}

// say writes a line to the child.
func (c *child) say(line string) error {
	_, err := io.WriteString(c.stdin, line+"\n")
	return err
}

func (c *child) signal(s os.Signal) { _ = c.cmd.Process.Signal(s) } // the dead do not mind

// kill ends it and waits for that.
func (c *child) kill() {
	c.signal(os.Kill)
	<-c.ended
}

// settle reads a child's settings from its standard input. The context ends when the input does, as the harness is gone then.
// Further lines go to hear.
func settle(ctx context.Context, in io.Reader, settings any, hear func(string)) (context.Context, error) {
	lines := bufio.NewScanner(in)
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), settings) != nil {
		return nil, errors.New("no settings on standard input: this command is for the use of `guyline chaos` alone")
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		for lines.Scan() {
			hear(lines.Text())
		}
	}()
	return ctx, nil
}
