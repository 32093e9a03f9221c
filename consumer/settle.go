package consumer

import (
	"context"
	"time"
)

// Everything that tells the server what became of a message is in this file. Except for confirm these are
// courtesies: each may be lost, and the next delivery puts it right.

// ack removes the message: its report is settled.
func (d *delivery) ack() {
	if err := d.msg.Ack(); err != nil {
		d.log.Debug("ack not sent; the next delivery will be a duplicate", "err", err)
	}
}

// confirm removes the message and waits until the server has done so.
func (d *delivery) confirm(ctx context.Context) {
	if err := d.msg.DoubleAck(ctx); err != nil {
		d.log.Debug("ack not confirmed; if it is lost the report is delivered again", "err", err)
	}
}

// retryIn asks for another delivery after the delay, unless the message is lost. A delay of zero would be
// taken as none.
func (d *delivery) retryIn(delay time.Duration) {
	if d.lost() {
		return
	}
	if err := d.msg.NakWithDelay(max(delay, time.Millisecond)); err != nil {
		d.log.Debug("retry not asked for; it is delivered again after AckWait", "err", err)
	}
}

// terminate removes the message: its report is dead, and the letter is safe.
func (d *delivery) terminate(reason string) {
	if err := d.msg.TermWithReason(reason); err != nil {
		d.log.Debug("end not sent; the next delivery will find the letter", "err", err)
	}
}

// heartbeat tells the server that the message is being worked on, unless it is lost.
func (d *delivery) heartbeat() {
	if d.lost() {
		return
	}
	now := time.Now()
	if err := d.msg.InProgress(); err != nil {
		return // beatAt stays: the message counts as lost after AckWait
	}
	d.mu.Lock()
	d.beatAt = now
	d.mu.Unlock()
}
