package proof

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"
)

// MaxKey is the most that a file of keys may have, in bytes.
const MaxKey = 16 << 10

// ErrKey says that something is not a key. What was given is not in the error, as it may be a private key.
var ErrKey = errors.New("not a key")

const maxName = 128

// NewKey makes a pair of Ed25519 keys. The name is part of each signature; it has at most 128 bytes, all printable, and neither spaces
// nor a plus sign.
func NewKey(name string) (private, public string, err error) {
	if err := checkName(name); err != nil {
		return "", "", err
	}
	if private, public, err = note.GenerateKey(rand.Reader, name); err == nil {
		_, err = note.NewVerifier(public)
	}
	if err != nil {
		return "", "", fmt.Errorf("%w: the name %.64q: %w", ErrKey, name, err)
	}
	return private, public, nil
}

// checkName refuses also what the library takes and a terminal would obey: a name is printed wherever a signature is.
func checkName(name string) error {
	bad := func(r rune) bool { return r == '+' || unicode.IsSpace(r) || !unicode.IsPrint(r) }
	if name == "" || len(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, bad) {
		return fmt.Errorf("%w: the name %.64q must have 1-%d bytes, all printable, no spaces and no plus sign", ErrKey, name, maxName)
	}
	return nil
}

// Key is a private key: it signs.
type Key struct {
	signer   note.Signer
	verifier note.Verifier
}

// ParseKey reads a private key, as [NewKey] made it, or returns [ErrKey].
func ParseKey(text string) (Key, error) {
	text = strings.TrimSpace(text)
	signer, err := note.NewSigner(text)
	if err != nil {
		if _, err := note.NewVerifier(text); err == nil {
			return Key{}, fmt.Errorf("%w: it is a public key, signing needs the private one", ErrKey)
		}
		return Key{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	if err := checkName(signer.Name()); err != nil {
		return Key{}, err
	}
	public, err := publicOf(text, signer.Name())
	if err != nil {
		return Key{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	return Key{signer, public}, nil
}

// publicOf derives the public half of a private key that has been read before: its last part is the algorithm's byte and the seed.
func publicOf(private, name string) (note.Verifier, error) {
	parts := strings.SplitN(private, "+", 5)
	seed, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil || len(seed) != 1+ed25519.SeedSize {
		return nil, errors.New("its seed is malformed")
	}
	key := ed25519.NewKeyFromSeed(seed[1:])
	text, err := note.NewEd25519VerifierKey(name, key.Public().(ed25519.PublicKey))
	if err != nil {
		return nil, err
	}
	return note.NewVerifier(text)
}

// ID is the key's name and hash, as signatures have it.
func (k Key) ID() string { return keyID(k.signer.Name(), k.signer.KeyHash()) }

func keyID(name string, hash uint32) string { return fmt.Sprintf("%s+%08x", name, hash) }

// Keys are the public keys whose signatures count. Without any, no signature is checked.
type Keys []note.Verifier

// ParseKeys reads public keys, one a line, or returns [ErrKey].
func ParseKeys(text string) (keys Keys, err error) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if strings.HasPrefix(line, "PRIVATE+KEY+") {
			return nil, fmt.Errorf("%w: it is a private key, which must not leave its holder: give the public one", ErrKey)
		}
		v, err := note.NewVerifier(line)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrKey, err)
		}
		if err := checkName(v.Name()); err != nil {
			return nil, err
		}
		if !keys.has(v) { // the library refuses to choose between equal ones
			keys = append(keys, v)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrKey)
	}
	return keys, nil
}

// With adds keys to others.
func (k Keys) With(more ...note.Verifier) Keys {
	all := append(Keys(nil), k...)
	for _, v := range more {
		if !all.has(v) {
			all = append(all, v)
		}
	}
	return all
}

func (k Keys) has(v note.Verifier) bool {
	for _, have := range k {
		if have.Name() == v.Name() && have.KeyHash() == v.KeyHash() {
			return true
		}
	}
	return false
}

// Public is the key's public half.
func (k Key) Public() note.Verifier { return k.verifier }
