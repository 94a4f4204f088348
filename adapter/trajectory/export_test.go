package trajectory

// Reseal signs a segment anew, as someone would who wants to hide a change.
func Reseal(s *Segment) { s.Digest = digest(s) }
