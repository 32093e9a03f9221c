package pdf

import (
	"encoding/json"
	"testing"
	"time"
)

func TestParseDate(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                        "0001-01-01T00:00:00Z",
		"yesterday":               "0001-01-01T00:00:00Z",
		"D:20261301":              "0001-01-01T00:00:00Z",
		"D:20260401083000-99'99'": "0001-01-01T00:00:00Z",
		"D:00000101000000+05'00'": "0001-01-01T00:00:00Z",
		"D:2026":                  "2026-01-01T00:00:00Z",
		"D:20210729":              "2021-07-29T00:00:00Z",
		"20260401083000":          "2026-04-01T08:30:00Z",
		"D:20260401083000Z":       "2026-04-01T08:30:00Z",
		"D:20151212184957Z00'00'": "2015-12-12T18:49:57Z",
		"D:20260401083000-05'00'": "2026-04-01T13:30:00Z",
		"D:20260401083000+05'30":  "2026-04-01T03:00:00Z",
		"D:20260401083000+02":     "2026-04-01T06:30:00Z",
	} {
		if got := parseDate(in).Format(time.RFC3339); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
		if _, err := json.Marshal(parseDate(in)); err != nil {
			t.Errorf("%q: %v", in, err)
		}
	}
}
