//go:build unix

package extract

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/guyline/guyline/extract/source"
	"github.com/guyline/guyline/report"
)

// An attempt has a minute. Its turn comes after some of it, and the inspection takes longer than what is left, or is cut by a stop.
func TestInTurn(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		turn, stop time.Duration // 0 = no stop
		want       string        // empty = it is stopped
	}{
		"its turn never comes":          {time.Hour, 0, "1m0s of it were spent waiting for a turn and 0s inspecting; let the worker take fewer"},
		"it waits most of the time":     {40 * time.Second, 0, "40s of it were spent waiting for a turn and 20s inspecting; let the worker take fewer"},
		"it is inspected most of it":    {20 * time.Second, 0, "20s of it were spent waiting for a turn and 40s inspecting; repair or replace"},
		"it is stopped while it waits":  {40 * time.Second, 30 * time.Second, ""},
		"it is stopped while inspected": {20 * time.Second, 30 * time.Second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				turns := make(chan struct{}, 1)
				turns <- struct{}{}
				time.AfterFunc(tt.turn, func() { <-turns })
				if tt.stop > 0 {
					time.AfterFunc(tt.stop, cancel)
				}
				_, err := inTurn(ctx, turns, func() (int, error) {
					<-ctx.Done()
					return 0, ctx.Err()
				})
				switch e := report.Classify(err); {
				case tt.want == "":
					if err != context.Canceled {
						t.Errorf("got %v", err)
					}
				case e.Kind != report.KindTransient || e.Code != report.CodeTimeout || !strings.Contains(err.Error(), tt.want):
					t.Errorf("got %v %s: %v, want %s", e.Kind, e.Code, err, tt.want)
				}
			})
		})
	}
	verdict := errors.New("no pages")
	if got, err := inTurn(t.Context(), make(chan struct{}, 1), func() (int, error) { return 7, verdict }); got != 7 || err != verdict {
		t.Errorf("a verdict in time: got %d, %v", got, err)
	}
}

// deadline is a context whose deadline passes when over is closed.
type deadline struct {
	context.Context
	over chan struct{}
}

func (d deadline) Done() <-chan struct{} { return d.over }

func (d deadline) Err() error {
	select {
	case <-d.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// The source has delivered, so it is not told that it was too slow.
func TestLateInspection(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	began := filepath.Join(dir, "began")
	must(t, syscall.Mkfifo(began, 0o600))
	write(t, filepath.Join(dir, "a.doc"), []byte("anything"))
	write(t, filepath.Join(dir, "slow.sh"), []byte("echo yes >"+began+"; exec sleep 1000\n"))
	x, err := Open(t.Context(), Config{Source: source.Config{FileRoot: dir}, Command: "sh " + filepath.Join(dir, "slow.sh")}, slog.Default())
	must(t, err)
	defer x.Close()
	ctx := deadline{t.Context(), make(chan struct{})}
	go func() {
		_, _ = os.ReadFile(began)
		close(ctx.over)
	}()
	_, err = x.Extract(ctx, report.Event{SiteID: "a", SourceURI: "a.doc"})
	if e := report.Classify(err); e.Code != report.CodeTimeout || !strings.Contains(err.Error(), "the file came, but") {
		t.Errorf("got %v %s: %v", e.Kind, e.Code, err)
	}
}
