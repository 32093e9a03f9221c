package audit

import (
	"context"
	"fmt"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/report"
)

// Known tells which of many reports the trail has events of. Any replica may answer: those that it does not name may have
// events all the same.
func (t *Trail) Known(ctx context.Context, refs []report.Ref) (map[report.Key]bool, error) {
	subjects := make([]string, len(refs))
	asked := make(map[string]report.Key, len(refs))
	for i, r := range refs {
		subjects[i] = subject(r.Site, r.Key)
		asked[subjects[i]] = r.Key
	}
	known := map[report.Key]bool{}
	for m, err := range jsapi.Lasts(ctx, t.js, Stream, subjects) {
		if err != nil {
			return nil, fmt.Errorf("audit trail: %w", err)
		}
		if key, ok := asked[m.Subject]; ok {
			known[key] = true
		}
	}
	return known, nil
}
