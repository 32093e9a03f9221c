package keyvalue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

func openSites(t testing.TB) (*keyvalue.Sites, jetstream.JetStream) {
	t.Helper()
	js := setUp(t)
	s, err := keyvalue.OpenSites(context.Background(), js)
	if err != nil {
		t.Fatal(err)
	}
	return s, js
}

// known asks for each of these sites.
func known(t testing.TB, s *keyvalue.Sites, sites ...string) (yes []string) {
	t.Helper()
	for _, site := range sites {
		ok, err := s.Known(context.Background(), report.NewToken(site))
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			yes = append(yes, site)
		}
	}
	return yes
}

func all(t testing.TB, s *keyvalue.Sites) (sites []string) {
	t.Helper()
	for site, err := range s.All(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		sites = append(sites, site)
	}
	return sites
}

func imported(t testing.TB, s *keyvalue.Sites, sites ...string) {
	t.Helper()
	if err := s.Import(context.Background(), sites); err != nil {
		t.Fatal(err)
	}
}

func TestImportRefused(t *testing.T) {
	t.Parallel()
	s, js := openSites(t)
	for _, sites := range [][]string{nil, {}, {"a", ""}, {"a", "b:c"}, {"a", "b\n"}, {"a", strings.Repeat("x", 129)}} {
		if err := s.Import(t.Context(), sites); err == nil {
			t.Errorf("%q was imported", sites)
		}
	}
	st, err := js.Stream(t.Context(), "KV_reports_sites")
	if err != nil || st.CachedInfo().State.LastSeq != 0 {
		t.Errorf("something was written: %+v, %v", st.CachedInfo().State, err)
	}
	if got := known(t, s, "a", "any site"); len(got) != 2 || all(t, s) != nil {
		t.Errorf("before an import all sites are known, and none is listed: got %q and %q", got, all(t, s))
	}
}

func TestImport(t *testing.T) {
	t.Parallel()
	s, _ := openSites(t)
	first := []string{"TWR-9017", "NY-1", "NY 12.4", "São Paulo", "a=b_c", "NY", "a.b", "NY", "meta", "version"}
	imported(t, s, first...)
	want := []string{"NY", "NY 12.4", "NY-1", "São Paulo", "TWR-9017", "a.b", "a=b_c", "meta", "version"}
	if got := all(t, s); !slices.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	if got := known(t, s, append(want, "TWR-8842", "ny", "NY 12", "NY 12.4 ", "a", "a_b", "", "*", ">")...); !slices.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	imported(t, s, "NY", "TWR-8842")
	want = []string{"NY", "TWR-8842"}
	if got := known(t, s, append(want, first...)...); !slices.Equal(slices.Compact(slices.Sorted(slices.Values(got))), want) {
		t.Errorf("after the second import %q are known, want %q", got, want)
	}
	if got := all(t, s); !slices.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
}

// An import that is cut off makes no site unknown, and leaves nothing for the next one.
func TestImportCutOff(t *testing.T) {
	t.Parallel()
	for _, before := range [][]string{nil, {"a", "b"}} {
		t.Run(fmt.Sprintf("after %q", before), func(t *testing.T) {
			t.Parallel()
			s, js := openSites(t)
			if before != nil {
				imported(t, s, before...)
			}
			kv, err := js.KeyValue(t.Context(), "reports_sites")
			if err != nil {
				t.Fatal(err)
			}
			for _, site := range []string{"b", "c"} {
				if _, err := kv.PutString(t.Context(), "site."+site, fmt.Sprint(len(before)/2+1)); err != nil {
					t.Fatal(err)
				}
			}
			if got := known(t, s, "a", "b"); len(got) != 2 {
				t.Errorf("after the cut %q are known, want a and b", got)
			}
			imported(t, s, "b", "d")
			if got := known(t, s, "a", "b", "c", "d"); !slices.Equal(got, []string{"b", "d"}) {
				t.Errorf("after the next import %q are known, want b and d", got)
			}
		})
	}
}

func many(n int) (sites []string) {
	for i := range n {
		sites = append(sites, fmt.Sprintf("site %04d", i))
	}
	return sites
}

// onFirstWrite calls act once, while the first site of an import is being written.
func onFirstWrite(t testing.TB, js jetstream.JetStream, act func()) {
	t.Helper()
	sub, err := js.Conn().Subscribe("$KV.reports_sites.site.>", func(*nats.Msg) { act() })
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.AutoUnsubscribe(1); err != nil {
		t.Fatal(err)
	}
	if err := js.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
}

func TestImportCancelled(t *testing.T) {
	t.Parallel()
	s, js := openSites(t)
	imported(t, s, many(500)...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	onFirstWrite(t, js, cancel)
	if err := s.Import(ctx, append(many(300), "another")); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want context.Canceled", err)
	}
	if got := known(t, s, many(500)...); len(got) != 500 {
		t.Errorf("%d sites are known, want all 500", len(got))
	}
}

// Of two imports at once one fails, wherever they meet, and the other's sites are all known.
func TestImportsAtOnce(t *testing.T) {
	t.Parallel()
	for what, second := range map[string][]string{
		"the same":       many(500),
		"only the last":  many(500)[499:],
		"only the first": many(1),
		"others":         {"another", "yet another"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s, js := openSites(t)
			result := make(chan error, 1)
			onFirstWrite(t, js, func() { go func() { result <- s.Import(context.Background(), second) }() })
			lists := [][]string{many(500), second}
			errs := []error{s.Import(t.Context(), many(500)), <-result}
			if (errs[0] == nil) == (errs[1] == nil) {
				t.Fatalf("want one error, got %v", errs)
			}
			for i, err := range errs {
				if err == nil {
					if got := known(t, s, lists[i]...); len(got) != len(lists[i]) {
						t.Errorf("%d of the winner's sites are known, want %d", len(got), len(lists[i]))
					}
				} else if !strings.Contains(err.Error(), "another import") {
					t.Error(err)
				}
			}
		})
	}
}

func TestSitesServerGone(t *testing.T) {
	t.Parallel()
	s, js := openSites(t)
	imported(t, s, "a")
	js.Conn().Close()
	if ok, err := s.Known(t.Context(), "a"); err == nil {
		t.Errorf("known: %v without an error", ok)
	}
	if err := s.Import(t.Context(), []string{"a"}); err == nil {
		t.Error("import: no error")
	}
	n := 0
	for _, err := range s.All(t.Context()) {
		if n++; err == nil {
			t.Error("a site without an error")
		}
	}
	if n != 1 {
		t.Errorf("reading all yields %d errors, want 1", n)
	}
}
