package consumer

// knownHosts bounds how many upstreams a worker remembers: publishers choose them.
const knownHosts = 1000

// hosts is what is remembered of upstreams, by scheme://host.
type hosts[T any] map[string]*T

// find is what is remembered of an upstream, or its zero value, added now. If there are too many it takes the place of an idle one; if
// none is, it is nil.
func (h *hosts[T]) find(name string, idle func(*T) bool) (found *T, added bool) {
	if found := (*h)[name]; found != nil {
		return found, false
	}
	if *h == nil {
		*h = hosts[T]{}
	}
	if len(*h) >= knownHosts {
		for other, of := range *h {
			if idle(of) {
				delete(*h, other)
				break
			}
		}
	}
	if len(*h) >= knownHosts {
		return nil, false
	}
	found = new(T)
	(*h)[name] = found
	return found, true
}
