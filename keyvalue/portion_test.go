package keyvalue

import (
	"testing"
	"time"
)

func TestPortion(t *testing.T) {
	t.Parallel()
	var p portion
	want := func(why string, n int) {
		t.Helper()
		if got := p.size(); got != n {
			t.Fatalf("%s: %d entries, want %d", why, got, n)
		}
	}
	want("at first", 32)
	p.took(5, time.Millisecond)
	want("a small request proves little", 32)
	for range 10 {
		p.took(p.size(), time.Millisecond)
	}
	want("all are quick", 128)
	p.took(128, 200*time.Millisecond)
	want("neither quick nor slow", 128)
	p.took(40, time.Second)
	want("40 were slow", 20)
	for range 10 {
		p.took(p.size(), 5*time.Second)
	}
	want("all are slow", 8)
	p.took(8, time.Millisecond)
	want("quick again", 16)
}
