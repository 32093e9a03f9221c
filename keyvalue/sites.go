package keyvalue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/report"
)

const (
	sitesBucket = "reports_sites"
	sitesPrefix = "$KV." + sitesBucket + "."
	marker      = "meta.version"
)

// Sites is the registry of known sites, the bucket reports_sites. It is safe for concurrent use.
type Sites struct {
	js jetstream.JetStream
	kv jetstream.KeyValue
}

// OpenSites finds the bucket; a missing one is [jetstream.ErrBucketNotFound].
func OpenSites(ctx context.Context, js jetstream.JetStream) (*Sites, error) {
	kv, err := js.KeyValue(ctx, sitesBucket)
	if err != nil {
		return nil, fmt.Errorf("open the site registry: %w", err)
	}
	return &Sites{js, kv}, nil
}

// Known reports whether the registry names a site. Before the first import every site is known. A miss
// counts only after the leader has missed too.
func (s *Sites) Known(ctx context.Context, site report.Token) (bool, error) {
	if ok, err := s.known(ctx, site, s.get); ok || err != nil {
		return ok, err
	}
	return s.known(ctx, site, s.getLeader)
}

func (s *Sites) known(ctx context.Context, site report.Token, get func(context.Context, string) (uint64, error)) (bool, error) {
	counts, err := get(ctx, marker)
	if err != nil || counts == 0 {
		return err == nil, err
	}
	version, err := get(ctx, "site."+string(site))
	return version >= counts, err
}

// KnownMany asks any replica about many sites in one request, and sets those that the registry names to true. The others may be known
// all the same: ask [Sites.Known].
func (s *Sites) KnownMany(ctx context.Context, sites map[report.Token]bool) error {
	subjects := []string{sitesPrefix + marker}
	for site := range sites {
		subjects = append(subjects, sitesPrefix+"site."+string(site))
	}
	versions := make(map[string]uint64, len(subjects))
	for m, err := range jsapi.Lasts(ctx, s.js, "KV_"+sitesBucket, subjects) {
		if err != nil {
			return fmt.Errorf("site registry: %w", err)
		}
		versions[m.Subject] = version(m.Data)
	}
	counts := versions[sitesPrefix+marker]
	for site := range sites {
		sites[site] = counts == 0 || versions[sitesPrefix+"site."+string(site)] >= counts
	}
	return nil
}

// get reads a version from any replica; 0 = none.
func (s *Sites) get(ctx context.Context, key string) (uint64, error) {
	got, err := s.kv.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("site registry: %w", err)
	}
	return version(got.Value()), nil
}

func (s *Sites) getLeader(ctx context.Context, key string) (uint64, error) {
	got, err := jsapi.Last(ctx, s.js, "KV_"+sitesBucket, sitesPrefix+key)
	switch {
	case errors.Is(err, jsapi.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("site registry: %w", err)
	}
	return version(got.Data), nil
}

// Import makes these sites the registry, all or nothing: the ones that are not named are unknown from then
// on. It writes every site with the next version and then the marker that makes the version count, so an import that
// is cut off makes no site unknown and is to be repeated. Every write is a compare-and-set in the order of names: of two
// imports at once one goes on and the other fails.
func (s *Sites) Import(ctx context.Context, sites []string) error {
	if len(sites) == 0 {
		return errors.New("import sites: the list names none")
	}
	for _, site := range sites {
		if err := report.ValidateSite(site); err != nil {
			return fmt.Errorf("import sites: %w", err)
		}
	}
	revisions, newest, err := s.written(ctx)
	if err != nil {
		return fmt.Errorf("import sites: %w", err)
	}
	value := []byte(strconv.FormatUint(newest+1, 10))
	var keys []string
	for _, site := range sites {
		keys = append(keys, "site."+string(report.NewToken(site)))
	}
	slices.Sort(keys)
	for _, key := range append(slices.Compact(keys), marker) {
		_, err := s.kv.Update(ctx, key, value, revisions[key])
		switch {
		case errors.Is(err, jetstream.ErrKeyRevisionMismatch), errors.Is(err, jetstream.ErrKeyExists):
			return errors.New("import sites: another import is going on or has finished meanwhile: run it again")
		case err != nil:
			return fmt.Errorf("import sites: %w", err)
		}
	}
	return nil
}

// written is the revision of every key, the marker's too, and the newest version among them: one that was cut off
// may be newer than the marker.
func (s *Sites) written(ctx context.Context) (revisions map[string]uint64, newest uint64, err error) {
	revisions = map[string]uint64{}
	for m, err := range jsapi.Scan(ctx, s.js, "KV_"+sitesBucket, sitesPrefix+">", false) {
		if err != nil {
			return nil, 0, err
		}
		revisions[strings.TrimPrefix(m.Subject, sitesPrefix)] = m.Sequence
		newest = max(newest, version(m.Data))
	}
	return revisions, newest, nil
}

// All yields the known sites in order; none before the first import.
func (s *Sites) All(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		counts, err := s.getLeader(ctx, marker)
		if err != nil {
			yield("", err)
			return
		}
		var known []string
		for m, err := range jsapi.Scan(ctx, s.js, "KV_"+sitesBucket, sitesPrefix+"site.*", false) {
			if err != nil {
				yield("", err)
				return
			}
			if site, err := report.Token(strings.TrimPrefix(m.Subject, sitesPrefix+"site.")).Site(); err == nil && version(m.Data) >= counts && counts > 0 {
				known = append(known, site)
			}
		}
		slices.Sort(known)
		for _, site := range known {
			if !yield(site, nil) {
				return
			}
		}
	}
}

func version(value []byte) uint64 {
	n, _ := strconv.ParseUint(string(value), 10, 64)
	return n
}
