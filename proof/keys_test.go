package proof

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "two words", "a+b", "\xff", "a\x1b[2Jb", "a\u202eb", strings.Repeat("x", 129)} {
		if private, _, err := NewKey(name); !errors.Is(err, ErrKey) || private != "" {
			t.Errorf("name %q: %v", name, err)
		}
	}
	private, public, err := note.GenerateKey(rand.Reader, "a\x1b[2Jb") // as somebody else's program may
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseKey(private); !errors.Is(err, ErrKey) || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("a private key with such a name: %v", err)
	}
	if _, err := ParseKeys(public); !errors.Is(err, ErrKey) || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("a public key with such a name: %v", err)
	}
	private, public, err = NewKey("office")
	if err != nil {
		t.Fatal(err)
	}
	key, err := ParseKey(private)
	if err != nil || !strings.HasPrefix(public, key.ID()+"+") {
		t.Errorf("%v: the key is %s, its public half %s", err, key.ID(), public)
	}
	for what, text := range map[string]string{
		"nothing": " \n", "rubbish": "office", "private": private, "both": public + "\n" + private, "changed": strings.Replace(public, "office", "offica", 1),
	} {
		if _, err := ParseKeys(text); !errors.Is(err, ErrKey) {
			t.Errorf("public, %s: %v", what, err)
		} else if strings.Contains(err.Error(), private[20:]) {
			t.Errorf("public, %s: the private key is in %v", what, err)
		}
	}
	for what, text := range map[string]string{"nothing": "", "public": public, "changed": private[:len(private)-6] + "AAAAA="} {
		if _, err := ParseKey(text); !errors.Is(err, ErrKey) {
			t.Errorf("private, %s: %v", what, err)
		}
	}
	if keys, err := ParseKeys("\n" + public + "\r\n" + public); err != nil || len(keys) != 1 {
		t.Errorf("the same key twice: %d, %v", len(keys), err)
	}
}
