package command

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/guyline/guyline/extract/limits"
	"github.com/guyline/guyline/report"
)

// Exit codes that an extractor uses, from sysexits.h.
const (
	exitData   = 65 // EX_DATAERR
	exitTemp   = 75 // EX_TEMPFAIL
	exitConfig = limits.ExitConfig
)

// Why a run was cut short by us.
var (
	errTime = errors.New("the extractor's time is over")
	errFull = errors.New("the result is too large")
)

// ending is all that is known when a run is over.
type ending struct {
	limits limits.Limits
	time   time.Duration
	stdout stdout
	stderr stderr
	state  *os.ProcessState
	cause  error // why we killed it; nil if we did not
}

// judge turns the ending of a run into a result or an error with a kind and a code.
func (e *ending) judge() (report.Result, error) {
	switch signal, killed := signalOf(e.state); {
	case e.stdout.over:
		return nil, report.Poison(report.CodeResultTooLarge, fmt.Errorf("the extractor's result has more than %d bytes; print less", report.MaxResult))
	case e.cause == errTime && !e.state.Success():
		return nil, report.Poison(report.CodeKilledTime, fmt.Errorf("the extractor was killed after %v; repair or replace the file: %s", e.time, e.stderr.reason()))
	case e.cause != nil && !e.state.Success():
		return nil, e.cause // the caller's context
	case killed:
		return nil, e.death(signal)
	}
	said := fmt.Errorf("the extractor exited with code %d: %s", e.state.ExitCode(), e.stderr.reason())
	switch code := e.state.ExitCode(); {
	case code == 0:
		return e.result()
	case code == exitData:
		return nil, report.Poison(report.CodeRejected, said)
	case code == exitTemp:
		return nil, report.Transient(report.CodeTemporary, said)
	case code == exitConfig:
		return nil, report.Hold(report.CodeUnclassified, said)
	case e.stderr.lacksMemory():
		return nil, report.Poison(report.CodeKilledMemory, fmt.Errorf("%w; it may use %d MiB of memory", said, e.limits.Data>>20))
	default:
		return nil, report.Poison(report.CodeUnclassified, said)
	}
}

// death is the verdict on a process that died of a signal which was not ours.
func (e *ending) death(signal syscall.Signal) error {
	used := e.state.UserTime() + e.state.SystemTime()
	said := fmt.Errorf("the extractor ended by signal %d (%v) after %v of CPU time: %s", signal, signal, used.Round(time.Second/10), e.stderr.reason())
	switch {
	case used >= e.limits.CPU:
		return report.Poison(report.CodeKilledTime, fmt.Errorf("%w; it may use %v; repair or replace the file", said, e.limits.CPU))
	case e.stderr.lacksMemory():
		return report.Poison(report.CodeKilledMemory, fmt.Errorf("%w; most likely memory was lacking, of which it may use %d MiB", said, e.limits.Data>>20))
	case signal == syscall.SIGKILL: // by the kernel as the machine is short of memory, or by a person. It proves nothing against the file.
		return report.Transient(report.CodeKilledMemory, fmt.Errorf("%w; it was killed from outside, as the kernel does when memory is short; give the machine more", said))
	}
	return report.Poison(report.CodeCrashed, fmt.Errorf("%w; repair or replace the file", said))
}

// result is what a run that went well has printed.
func (e *ending) result() (report.Result, error) {
	r := report.Result(bytes.TrimSpace(e.stdout.b))
	switch {
	case len(r) == 0:
		return nil, report.Poison(report.CodeInvalidResult, errors.New("the extractor exited with code 0 and printed nothing; print one JSON object"))
	case !utf8.Valid(r):
		return nil, report.Poison(report.CodeInvalidResult, errors.New("the extractor's result is not UTF-8; print one JSON object"))
	}
	if err := r.Check(); err != nil {
		return nil, err
	}
	return r, nil
}

// signalOf is the signal that ended the process, if one did.
func signalOf(state *os.ProcessState) (syscall.Signal, bool) {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return 0, false
	}
	return status.Signal(), true
}
