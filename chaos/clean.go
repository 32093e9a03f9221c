package chaos

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Clean is a process that waits until the harness is gone, and then removes its temporary directory. The other processes die with
// the harness, but perhaps a moment later.
func Clean(ctx context.Context, in io.Reader) error {
	var s cleanSettings
	gone, err := settle(ctx, in, &s, nil)
	if err != nil {
		return err
	}
	<-gone.Done()
	if !strings.HasPrefix(filepath.Base(s.Dir), tempName) {
		return nil
	}
	for range 20 { // the dying may still write
		err = os.RemoveAll(s.Dir)
		pause(context.Background(), 100*time.Millisecond)
	}
	return err
}
