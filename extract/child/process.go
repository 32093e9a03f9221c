package child

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/guyline/guyline/extract/limits"
	"github.com/guyline/guyline/extract/pdf"
	"github.com/guyline/guyline/report"
)

const (
	startLimit = 2 * time.Minute // compiling the engine under the race detector takes 35 seconds of CPU time
	pause      = 100 * time.Millisecond
	grace      = 2 * time.Second // for the engine to report that it exceeded its limit, and for a process to end when asked to
)

var (
	errHung   = errors.New("the extraction process did not answer in time")
	errStart  = errors.New("the extraction process did not become ready in time")
	errKilled = errors.New("the extraction process was killed from outside, as the kernel does when memory is short; give the machine more")
)

// process is one extraction process, seen from the pool. It is used by one goroutine at a time.
type process struct {
	*limits.Process
	cmd     *exec.Cmd
	conn    *link
	answers *bufio.Reader
	said    *beginning // what it printed; complete when it is done
	asked   int
}

// start starts a process and waits until it is ready. Where the process itself says why it is not, that is the error.
func start(ctx context.Context, command []string) (*process, error) {
	p := &process{cmd: exec.Command(command[0], command[1:]...), said: &beginning{}}
	p.cmd.Args[0] = "guyline"
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	// One thread for the file, one for everything else; and garbage is collected in time to stay below maxMemory.
	p.cmd.Env = []string{"GOMAXPROCS=2", "GOMEMLIMIT=512MiB"}
	conn, theirs, err := connect(p.cmd)
	if err != nil {
		return nil, err
	}
	p.conn, p.answers = conn, bufio.NewReaderSize(conn, maxAnswer)
	p.Process, err = limits.Start(p.cmd)
	for _, f := range theirs {
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		conn.Close()
		if p.Process != nil {
			p.end()
		}
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, errStart)
	defer cancel()
	a, err := p.await(ctx, 0)
	if err == nil && a.Error != nil {
		err = a.Error.err()
	}
	if err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// inspect has the process inspect a file. answered says that the error, if any, is about the file, and that the process is
// as good as before. Otherwise the process has ended.
func (p *process) inspect(ctx context.Context, f *os.File, size int64, limit time.Duration) (doc pdf.Document, answered bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit+grace, errHung)
	defer cancel()
	p.asked++
	if err := p.conn.send(request{ID: p.asked, Size: size, Limit: limit}, f); err != nil {
		p.end()
		return doc, false, p.obituary(err)
	}
	a, err := p.await(ctx, p.asked)
	switch {
	case err != nil:
		return doc, false, err
	case a.Document != nil:
		return *a.Document, true, nil
	case a.Error.Code == report.CodeKilledTime: // on a busy machine it may be no fault of the file
		p.end()
		return doc, false, a.Error.err()
	}
	return doc, true, a.Error.err()
}

// await waits for an answer, and kills the process if there is none before ctx ends, or a bad one. An error means that
// the process has ended.
func (p *process) await(ctx context.Context, id int) (answer, error) {
	stop := context.AfterFunc(ctx, func() {
		p.Kill()
		p.conn.Close() // somebody else may hold the other end
	})
	a, err := readAnswer(p.answers, id)
	killed := !stop()
	if err == nil && !killed {
		return a, nil
	}
	if !killed && !errors.Is(err, errBadAnswer) {
		// It closed the connection, so it is about to end; why, is best said by itself.
		timer := time.AfterFunc(grace, p.Kill)
		<-p.Done()
		if !timer.Stop() {
			err = fmt.Errorf("%w: none, but it went on", errBadAnswer)
		}
	}
	p.end()
	switch {
	case context.Cause(ctx) == errHung:
		return a, report.Poison(report.CodeKilledTime, fmt.Errorf("%w and was killed; repair or replace the file", errHung))
	case killed:
		return a, context.Cause(ctx)
	}
	return a, p.obituary(err)
}

// end kills the process and waits for its end.
func (p *process) end() {
	p.Kill()
	<-p.Done()
	p.conn.Close()
}

// leave lets the process end by itself, and kills it if it does not before ctx ends.
func (p *process) leave(ctx context.Context) {
	p.conn.Close()
	_ = p.Wait(ctx)
}

// obituary says why a process ended that was not killed for its time.
func (p *process) obituary(err error) error {
	if errors.Is(err, errBadAnswer) {
		return report.Poison(report.CodeCrashed, fmt.Errorf("%w; repair or replace the file", err))
	}
	state, words := p.cmd.ProcessState, p.said.line()
	for _, sign := range []string{"out of memory", "cannot allocate memory", "cannot map pages", "failed to allocate", "failed to create new OS thread"} {
		if strings.Contains(words, sign) {
			return report.Poison(report.CodeKilledMemory, fmt.Errorf("the file makes the extraction process need more than %d MiB: %s; repair or replace it", maxMemory>>20, words))
		}
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		switch status.Signal() {
		case syscall.SIGKILL: // not by us: by the kernel for lack of memory, or by a person. It proves nothing against the file.
			return report.Transient(report.CodeKilledMemory, errKilled)
		case cpuSpent:
			return report.Poison(report.CodeKilledTime, errors.New("the extraction process used up its CPU time; repair or replace the file"))
		}
	}
	return report.Poison(report.CodeCrashed, fmt.Errorf("the extraction process crashed on the file (%v): %s; repair or replace it", state, words))
}

// beginning keeps the first kilobyte of what is written to it.
type beginning struct{ b []byte }

func (w *beginning) Write(p []byte) (int, error) {
	w.b = append(w.b, p[:min(len(p), 1024-len(w.b))]...)
	return len(p), nil
}

// line is the first line of it: the rest is a stack trace.
func (w *beginning) line() string {
	first, _, _ := strings.Cut(strings.TrimSpace(string(w.b)), "\n")
	return cmp.Or(report.Line(first, 300), "it said nothing")
}
