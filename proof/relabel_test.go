package proof

import (
	"strings"
	"testing"

	"github.com/guyline/guyline/report"
)

// "TWR 1" and "s3://x/y.pdf" give the same key as "TWR 1:s3" and "//x/y.pdf", but only one of them can be a report.
func TestRelabelledBundle(t *testing.T) {
	t.Parallel()
	w, _ := busy(t)
	for _, uri := range []string{"s3://reports/done1.pdf", "s3://reports/dead1.pdf", "s3://reports/never.pdf"} {
		b := w.prove(uri)
		b.SiteID, b.SourceURI = site+":s3", strings.TrimPrefix(uri, "s3:")
		if report.NewKey(b.SiteID, b.SourceURI) != b.Key {
			t.Fatal("the key is another one")
		}
		w.refuses(uri+", relabelled", b)
		b.Events = []ProvenEvent{}
		w.refuses(uri+", relabelled, without its events", b)
	}
}

// A result is taken only for the site and source that are in the signed entry itself.
func TestResultOfAnotherSite(t *testing.T) {
	t.Parallel()
	w, _ := busy(t)
	b := w.prove("s3://reports/done1.pdf")
	key, _ := parseRaw(b.Key)
	a := Answer{Key: b.Key, SiteID: site + ":s3", SourceURI: "//reports/done1.pdf"}
	var err error
	if a.Checkpoint, _, err = Open([]byte(b.Checkpoint), w.public); err != nil {
		t.Fatal(err)
	}
	if err := a.landed(*b.Result, key); err == nil || a.Landed {
		t.Error("it is taken for the result of another site")
	}
}
