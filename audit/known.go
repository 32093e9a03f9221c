package audit

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/report"
)

// Newest reads the newest event of each of many reports, of those that have one. Any replica may answer: a report may have newer ones, and
// one that is not named may have some all the same. An event that cannot be read is left out.
func (t *Trail) Newest(ctx context.Context, refs []report.Ref) (map[report.Key]Event, error) {
	newest := map[report.Key]Event{}
	err := t.newest(ctx, refs, func(key report.Key, m *jetstream.RawStreamMsg) {
		if e, err := readEvent(m); err == nil {
			newest[key] = e
		}
	})
	return newest, err
}

// Known tells which of many reports the trail has events of. Any replica may answer: those that it does not name may have
// events all the same.
func (t *Trail) Known(ctx context.Context, refs []report.Ref) (map[report.Key]bool, error) {
	known := map[report.Key]bool{}
	err := t.newest(ctx, refs, func(key report.Key, _ *jetstream.RawStreamMsg) { known[key] = true })
	return known, err
}

func (t *Trail) newest(ctx context.Context, refs []report.Ref, found func(report.Key, *jetstream.RawStreamMsg)) error {
	subjects := make([]string, len(refs))
	asked := make(map[string]report.Key, len(refs))
	for i, r := range refs {
		subjects[i] = subject(r.Site, r.Key)
		asked[subjects[i]] = r.Key
	}
	for m, err := range jsapi.Lasts(ctx, t.js, Stream, subjects) {
		if err != nil {
			return fmt.Errorf("audit trail: %w", err)
		}
		if key, ok := asked[m.Subject]; ok {
			found(key, m)
		}
	}
	return nil
}
