package consumer

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/stream"
)

// handBack is row 7d: it puts a copy of the report into the requeue stream and lets the message go. spent is how
// many attempts the copy has behind it; a verdict that could not be carried out travels in it. A stopping worker puts no copy
// while a pull of its own is open, which would bring it again.
func (c *Consumer) handBack(d *delivery, spent int, v *stream.Verdict) Outcome {
	if c.stopping.Err() != nil {
		<-c.taken
	}
	carried := d.Carried
	carried.PublishedAt, carried.StandsFor, carried.Attempts = d.PublishedAt, d.Identity, spent
	if v != nil {
		carried.Verdict = v
	} else if !d.lost() {
		ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
		defer cancel()
		carried.Suspect = c.staysSuspect(ctx, d)
	}
	switch other, err := c.putBack(d, carried, time.Time{}); {
	case err != nil:
		d.log().Warn("not handed back; it is delivered again after AckWait", "err", err)
		return c.leave(d)
	case other.Kind != "":
		return other
	}
	d.tell(slog.LevelInfo, "report_handed_back", slog.Int("attempt", spent))
	return Outcome{Kind: HandedBack, Key: d.Key, SiteID: d.Event.SiteID, Attempts: spent}
}

// putBack puts a copy in the place of the message in hand, parked until a time unless that is zero, and acks the message. If that
// was not to be, other says what became of the message instead; an error says that the server has not done it.
//
// The copy is put create-only, or in place of the message itself if that came from there. If the put is refused
// because an earlier try has arrived, the copy names this message, and that is as good.
func (c *Consumer) putBack(d *delivery, carried stream.Carried, until time.Time) (other Outcome, err error) {
	if d.lost() {
		return c.leave(d), nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	if d.Ref.Stream == stream.Reports {
		// The fence of the copy does not tell whether somebody else has settled the message itself: a server that was
		// restarted has forgotten the heartbeats, and delivers it to another while this worker still takes it for its own.
		// And in a queue that was made anew another report may be there.
		m, err := c.queues.Stored(ctx, d.Ref)
		if errors.Is(err, jsapi.ErrNotFound) || err == nil && (m.Key != d.Key || !m.PublishedAt.Equal(d.PublishedAt)) {
			return c.leave(d), nil
		}
	}
	var own uint64
	if d.Ref.Stream == stream.Requeued {
		own = d.Ref.Sequence
	}
	put := func(ctx context.Context) error {
		if until.IsZero() {
			return c.queues.Requeue(ctx, d.Site, d.Key, d.Header, d.Body, carried, own)
		}
		return c.queues.Park(ctx, d.Site, d.Key, d.Header, d.Body, carried, own, until)
	}
	err = put(ctx)
	if errors.Is(err, context.DeadlineExceeded) { // it may have arrived
		ctx, cancel = context.WithTimeout(context.Background(), requestTimeout)
		defer cancel()
		err = put(ctx)
	}
	if errors.Is(err, stream.ErrFenced) {
		found, readErr := c.queues.Copy(ctx, d.Site, d.Key)
		switch {
		case readErr == nil && found.Ref != d.Ref && found.Identity == d.Identity && found.PublishedAt.Equal(d.PublishedAt):
			err = nil
		case readErr == nil && carried.Verdict == nil && c.stopping.Err() == nil && c.standsIn(ctx, found, d):
			// Nobody works this message before the upstream answers, or the other suspect has ended: its deliveries would be used up
			// meanwhile, and it would be buried unworked. The copy waits in its stead.
			d.ack()
			d.tell(slog.LevelInfo, "skip_duplicate", slog.String("why", "another copy of the report waits"))
			return Outcome{Kind: Duplicate, Key: d.Key, SiteID: d.Event.SiteID}, nil
		case until.IsZero() && (readErr == nil || errors.Is(readErr, jsapi.ErrNotFound)):
			// Another copy of the report is queued, for instance a replay. Both will be worked; one commit wins. Or it is the message
			// itself: a replicated stream refuses a put while another one is on its way.
			d.retryIn(c.cfg.Backoff.Base)
			return c.leave(d), nil
		}
	}
	if err != nil {
		return Outcome{}, err
	}
	c.did("7d copied")
	d.confirm(ctx)
	return Outcome{}, nil
}

// standsIn reports whether a stored copy can stand for the message in hand: it is another one, expects the same file, and will be worked,
// as it is not what was left of a message that has died since.
func (c *Consumer) standsIn(ctx context.Context, found stream.Message, d *delivery) bool {
	if found.Ref == d.Ref || found.Carried.Verdict != nil || found.Invalid != nil || !strings.EqualFold(found.Event.SHA256, d.Event.SHA256) {
		return false
	}
	died, err := c.trail.Died(ctx, d.Site, d.Key, found.Identity.Stream, found.Identity.Sequence, found.PublishedAt, found.Carried.ReplayOf)
	return err == nil && !died
}
