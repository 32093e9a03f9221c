// Package part starts this program again, under a hidden command, as a process that is a part of it: a server, a worker.
//
// [Start] is the starter's side, [Settings] the part's. The part gets its settings as the first line of its standard input, where nobody else sees
// them. The starter holds that open as long as it lives, and may write further lines: a part whose input ends has lost its starter, and ends too.
// On Linux the kernel kills it even before, also if it is stopped.
package part

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Config says which part to start. Nothing but Command and Settings must be set.
type Config struct {
	Command  string       // the hidden command
	Settings any          // as JSON
	Log      io.Writer    // gets its standard error
	Line     func([]byte) // is called with each line that it prints, one at a time; the bytes are not to be kept
	Outlives bool         // the kernel does not kill it with the starter: it is there to clean up afterwards
}

// Process is a part that runs, or has ended.
type Process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{}
}

// Start starts a part. Whoever does it ends it, or waits for its end.
func Start(cfg Config) (*Process, error) {
	p, err := start(cfg)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cfg.Command, err)
	}
	return p, nil
}

func start(cfg Config) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	first, err := json.Marshal(cfg.Settings)
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(self, cfg.Command), ended: make(chan struct{})}
	p.cmd.Stderr, p.cmd.SysProcAttr = cfg.Log, Attributes(!cfg.Outlives)
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if cfg.Line != nil {
				cfg.Line(lines.Bytes())
			}
		}
		_ = p.cmd.Wait() // how it ended is its own to tell
	}()
	p.Say(string(first))
	return p, nil
}

// Say writes a line to the part. One that has ended does not hear it.
func (p *Process) Say(line string) { _, _ = io.WriteString(p.stdin, line+"\n") }

// Signal sends a signal. The dead do not mind.
func (p *Process) Signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

// Leave lets go of the part, which ends by itself then.
func (p *Process) Leave() { _ = p.stdin.Close() }

// Kill ends the part and waits for that.
func (p *Process) Kill() {
	p.Signal(os.Kill)
	<-p.ended
}

// Ended is closed when the part has ended, and all that it printed was handed to [Config.Line].
func (p *Process) Ended() <-chan struct{} { return p.ended }

// PID is the number of its process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Settings reads what the part was told by its starter, from its standard input. The returned context ends when the input does. Further lines go to hear,
// one at a time; nil takes none.
func Settings(ctx context.Context, in io.Reader, settings any, hear func(string)) (context.Context, error) {
	lines := bufio.NewScanner(in)
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), settings) != nil {
		return nil, errors.New("no settings on standard input")
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		for lines.Scan() {
			if hear != nil {
				hear(lines.Text())
			}
		}
	}()
	return ctx, nil
}
