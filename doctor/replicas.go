package doctor

import (
	"fmt"
	"strings"
)

func replicas(s Stream) []Finding {
	have, want := max(1, s.Have.Config.Replicas), max(1, s.Want.Replicas)
	what := fmt.Sprintf("it has %s, but GUYLINE_REPLICAS is %d", plural(uint64(have), "replica", "replicas"), want)
	switch {
	case have < want:
		return []Finding{repaired("replicas", s.Want.Name, what, "it is the first to be lost, or to stand still, when servers stop")}
	case have > want:
		return []Finding{byHand("replicas", s.Want.Name, what, "setup takes no replicas away, and refuses", fmt.Sprintf("set GUYLINE_REPLICAS=%d, or take them away with `nats stream edit`", have))}
	}
	return nil
}

// peers finds that a replicated stream has no leader, or fewer replicas than it looks.
func peers(s Stream) (findings []Finding) {
	c := s.Have.Cluster
	if c == nil || s.Have.Config.Replicas < 2 {
		return nil
	}
	if c.Leader == "" {
		findings = append(findings, person("leader", s.Want.Name, "it has no leader", "it takes and gives nothing", "see that more than half of its servers run and reach each other"))
	}
	var away, behind []string
	for _, p := range c.Replicas {
		switch {
		case p.Offline:
			away = append(away, p.Name)
		case !p.Current:
			behind = append(behind, p.Name)
		}
	}
	if len(away) > 0 {
		findings = append(findings, person("replica-away", s.Want.Name, "a replica is away: "+strings.Join(away, ", "), "it stands still when more stop", "start the server again"))
	}
	if len(behind) > 0 {
		findings = append(findings, note("replica-behind", s.Want.Name, "a replica has not caught up: "+strings.Join(behind, ", "), "until it has, the loss of others stops the stream", "look again in a minute"))
	}
	return findings
}
