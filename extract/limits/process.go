package limits

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// waitDelay is how long a process that escaped the group may hold the pipes of one that has ended.
const waitDelay = time.Second

// Process is a process that [Start] has started. Its methods may be called from many goroutines.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has been reaped
	err  error         // of exec.Cmd.Wait; read after done

	mu     sync.Mutex
	reaped bool // its number may belong to someone else now
}

// Start starts cmd in a process group of its own that dies with this program. cmd.Env nil is an empty
// environment. The caller must see to it that the process ends, by [Process.Wait] or [Process.Kill] and
// [Process.Done]; a goroutine lives as long as it does.
//
// cmd must come from exec.Command, not CommandContext. Its pipes must be files or writers of the caller:
// what cmd.StdoutPipe has not delivered when the process ends would be lost. The error is that of exec.Cmd.Start.
func Start(cmd *exec.Cmd) (*Process, error) {
	if cmd.Env == nil {
		cmd.Env = []string{}
	}
	cmd.WaitDelay = waitDelay
	cmd.SysProcAttr = attributes()
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = p.reap()
		}
	}()
	if err := <-started; err != nil {
		<-p.done
		return nil, fmt.Errorf("limits: start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// Kill kills the process and its group, at once. It does not wait for the end, and does nothing after it.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		p.kill()
	}
}

// Done is closed when the process has ended and its output is complete.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end, which it brings about if ctx ends first, and returns what exec.Cmd.Wait says. Whether
// the process ended by itself is for the caller to tell from ctx. cmd.ProcessState is valid afterwards.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
	case <-ctx.Done():
		p.Kill()
		<-p.done
	}
	return p.err
}

// last kills what is left of the group and forbids later kills.
func (p *Process) last() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kill()
	p.reaped = true
}
