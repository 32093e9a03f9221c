package main

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/report"
)

// filterFlags are the flags that select letters.
type filterFlags struct {
	site, class, code, upstream, since, until, dueWithin, replays, match string
	quarantined                                                          bool
}

func (f *filterFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.site, "site", "", "of this site_id")
	cmd.Flags().StringVar(&f.class, "class", "", "of this class: poison, exhausted or abandoned")
	cmd.Flags().StringVar(&f.code, "code", "", "with this code, like not-found")
	cmd.Flags().StringVar(&f.upstream, "upstream", "", "from this source: scheme://host, or file")
	cmd.Flags().StringVar(&f.since, "since", "", "dead since: a time, a date, or an age like 24h")
	cmd.Flags().StringVar(&f.until, "until", "", "dead before: a time, a date, or an age like 1h")
	cmd.Flags().StringVar(&f.dueWithin, "due-within", "", "with a deadline within so long from now, like 48h; deadlines that have passed are included")
	cmd.Flags().StringVar(&f.replays, "replays", "", "replayed at least so often")
	cmd.Flags().StringVar(&f.match, "match", "", "whose reason matches this regular expression")
	cmd.Flags().BoolVar(&f.quarantined, "quarantined", false, "replayed so often that only a KEY with --force replays them again")
}

func (f *filterFlags) empty() bool { return *f == filterFlags{} }

func (f *filterFlags) filter() (dlq.Filter, error) {
	out := dlq.Filter{
		Site: f.site, Class: report.Class(f.class), Code: report.Code(f.code), Upstream: strings.TrimSuffix(f.upstream, "/"), Quarantined: f.quarantined,
	}
	switch out.Class {
	case "", report.ClassPoison, report.ClassExhausted, report.ClassAbandoned:
	default:
		return out, usageError{fmt.Errorf("--class is %q, allowed: poison, exhausted, abandoned", f.class)}
	}
	if err := siteFlag(f.site); err != nil {
		return out, err
	}
	if strings.Trim(f.code, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return out, usageError{fmt.Errorf("--code is %q, allowed: lower-case words and hyphens, like not-found", f.code)}
	}
	if u, err := url.Parse(out.Upstream); f.upstream != "" && out.Upstream != "file" && (err != nil || u.Scheme == "" || u.Host == "" || u.Path != "") {
		return out, usageError{fmt.Errorf("--upstream is %q, allowed: scheme://host like sftp://portal.example.com, or file", report.RedactURI(f.upstream))}
	}
	return out, errors.Join(f.times(&out), f.numbers(&out))
}

// siteFlag finds what is wrong with a --site; empty is every site.
func siteFlag(site string) error {
	if site == "" {
		return nil
	}
	if err := (report.Event{SiteID: site, SourceURI: "x"}).Validate(); err != nil {
		return usageError{fmt.Errorf("--site: %w", err)}
	}
	return nil
}

// times reads the flags about times.
func (f *filterFlags) times(out *dlq.Filter) (err error) {
	if out.Since, out.Until, err = parseSpan(f.since, f.until); err != nil {
		return err
	}
	if f.dueWithin != "" {
		d, err := time.ParseDuration(f.dueWithin)
		if err != nil || d < 0 {
			return usageError{fmt.Errorf("--due-within is %q, allowed: a duration like 48h", f.dueWithin)}
		}
		out.DueBefore = time.Now().Add(d)
	}
	return nil
}

func (f *filterFlags) numbers(out *dlq.Filter) (err error) {
	if f.replays != "" {
		if out.Replays, err = strconv.Atoi(f.replays); err != nil || out.Replays < 1 {
			return usageError{fmt.Errorf("--replays is %q, allowed: 1 or more", f.replays)}
		}
	}
	if f.match != "" {
		if out.Match, err = regexp.Compile(f.match); err != nil {
			return usageError{fmt.Errorf("--match: %w", err)}
		}
	}
	return nil
}
