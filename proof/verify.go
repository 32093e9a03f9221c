package proof

import "context"

// Verify recomputes everything and holds it against the checkpoints: each event and its audit hash, each letter and its death and each death that nothing was done about and its letter, each
// ledger entry and its key, each checkpoint of the stream, and the note of one that was kept elsewhere (file; nil if there is
// none). What is not as it was written or signed is in the report, not an error.
//
// A checkpoint that does not fit is a finding unless a signed one gives it up: a restart event alone does not count.
//
// Without keys no signature is checked: the checkpoints of the stream then prove only that the log fits what lies beside it.
func (l *Log) Verify(ctx context.Context, keys Keys, file []byte) (Report, error) {
	s, err := l.read(ctx, file, 0, false)
	if err != nil {
		return Report{}, err
	}
	err = s.verify(ctx, s.judge(keys))
	return s.report, err
}

func (s *survey) verify(ctx context.Context, all []judged) error {
	if err := s.account(ctx, all); err != nil {
		return err
	}
	for f, err := range s.log.letters.VerifyAgainst(ctx, &s.dead) {
		switch {
		case err != nil:
			return err
		case f.Problem != "":
			s.found(Finding{What: InLetters, Sequence: f.Letter.Sequence, Key: f.Letter.Key, Problem: f.Problem})
		default:
			s.report.Letters++
		}
	}
	for key, err := range s.log.letters.Missing(ctx, &s.dead) {
		if err != nil {
			return err
		}
		s.found(Finding{What: InLetters, Key: key, Problem: "it is missing: the trail has recorded the death, and no act on the letter since"})
	}
	return nil
}
