package extract

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/guyline/guyline/report"
)

// A disk that fails under the engine is no fault of the report.
func TestReadError(t *testing.T) {
	t.Parallel()
	engine, err := sharedEngine()
	must(t, err)
	_, err = engine.inspect(t.Context(), brokenDisk{}, 1<<20)
	if e := report.Classify(err); e.Kind != report.KindTransient || e.Code != report.CodeConnection {
		t.Errorf("got %v %s: %v", e.Kind, e.Code, err)
	}
}

type brokenDisk struct{}

func (brokenDisk) ReadAt([]byte, int64) (int, error) { return 0, syscall.EIO }

func TestTimeLimit(t *testing.T) {
	t.Parallel()
	x := at(t, "testdata/corpus")
	hasty := *x.engine
	hasty.limit = 200 * time.Millisecond
	x.engine = &hasty
	if got, err := verdict(t, x, bomb); got != "poison:killed-time" {
		t.Errorf("got %s (%v)", got, err)
	}
}

func TestContextEnds(t *testing.T) {
	t.Parallel()
	x := at(t, "testdata/corpus")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	soon, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	for _, tt := range []struct {
		ctx  context.Context
		uri  string
		want error
	}{
		{ended, filepath.Base(good), context.Canceled},
		{ended, "missing.pdf", context.Canceled},
		{soon, bomb, context.DeadlineExceeded},
	} {
		_, err := x.Extract(tt.ctx, report.Event{SiteID: "a", SourceURI: tt.uri})
		if _, ok := errors.AsType[*report.Error](err); ok || !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want plain %v", tt.uri, err, tt.want)
		}
	}
}

// More callers than slots: everyone gets an answer, and one who stops waiting gets his context's error.
func TestManyCallers(t *testing.T) {
	t.Parallel()
	x := at(t, "testdata/corpus")
	narrow := *x.engine
	narrow.slots = make(chan struct{}, 1)
	x.engine = &narrow
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if got, err := verdict(t, x, filepath.Base(good)); got != "accept:1" {
				t.Errorf("got %s (%v)", got, err)
			}
		})
	}
	wg.Wait()
	narrow.slots <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := x.Extract(ctx, report.Event{SiteID: "a", SourceURI: filepath.Base(good)}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a free slot: %v", err)
	}
}
