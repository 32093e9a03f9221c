package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Everything that tells the server what became of a message is in this file, in the words of JetStream's protocol (ADR-13 and
// ADR-15). Except for confirm these are courtesies: each may be lost, and the next delivery puts it right.

// ack removes the message: its report is settled.
func (d *delivery) ack() {
	if err := d.last("+ACK"); err != nil {
		d.log().Debug("ack not sent; the next delivery will be a duplicate", "err", err)
	}
}

// confirm removes the message and waits until the server has done so.
func (d *delivery) confirm(ctx context.Context) {
	d.mu.Lock()
	d.over = true
	disowned := d.disowned
	d.mu.Unlock()
	if disowned {
		return
	}
	if _, err := d.nc.RequestWithContext(ctx, d.msg.Reply, []byte("+ACK")); err != nil {
		d.log().Debug("ack not confirmed; if it is lost the report is delivered again", "err", err)
	}
}

// retryIn asks for another delivery after the delay, unless the message is lost. A delay of zero would be
// taken as none.
func (d *delivery) retryIn(delay time.Duration) {
	if d.lost() {
		return
	}
	if err := d.last(fmt.Sprintf(`-NAK {"delay": %d}`, max(delay, time.Millisecond).Nanoseconds())); err != nil {
		d.log().Debug("retry not asked for; it is delivered again after AckWait", "err", err)
	}
}

// terminate removes the message: its report is dead, and the letter is safe.
func (d *delivery) terminate(reason string) {
	if err := d.last("+TERM " + reason); err != nil {
		d.log().Debug("end not sent; the next delivery will find the letter", "err", err)
	}
}

// heartbeat tells the server that the message is being worked on, unless it is lost or the last word is said: after a NAK it
// would turn the delay into AckWait. It reports whether it was sent.
func (d *delivery) heartbeat() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.over && time.Since(d.beatAt) <= d.ackWait && d.say("+WPI") == nil
}

// beaten notes that the server knew at a time that the message was being worked on. What is lost stays lost: the answer may have
// come from a server that was away and has delivered the message again.
func (d *delivery) beaten(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.beatAt) <= d.ackWait {
		d.beatAt = at
	}
}

// last says the last word about the message.
func (d *delivery) last(word string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	return d.say(word)
}

// say sends a word about the message. The caller has the lock.
func (d *delivery) say(word string) error {
	if d.disowned {
		return errDisowned
	}
	return d.nc.Publish(d.msg.Reply, []byte(word))
}

var errDisowned = errors.New("its consumer was made anew since")
