package rehearsal

import "time"

// quiet is how long nothing has been written when a pass is over: a Node's addresses are written just after it.
const quiet = 700 * time.Millisecond

// patience is how long a Node that has failed once may take to succeed, while no other does. The node
// controller repeats what has failed ten times a second in all, so that 1,000 Nodes would take minutes to fail again.
const patience = 10 * time.Second

// initialized says that every Node was initialized, or has failed often enough.
func (s *shadow) initialized(w *logParser) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	latest := s.changed
	if failed := w.lastFailure(); failed.After(latest) {
		latest = failed
	}
	if s.pending > 0 || time.Since(s.changed) < quiet {
		return false
	}
	for _, name := range s.names {
		if s.latest[name] == nil || s.untainted[name] || s.deleted[name] {
			continue
		}
		_, times := w.errorOf(name)
		if times == 0 || times < enough && time.Since(latest) < patience {
			return false
		}
	}
	return true
}

// asked says that the lifecycle controller has come round: a round that marks a phantom has all Nodes, and the
// phantom's second mark comes when that round is over.
func (s *shadow) asked(*logParser) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.marks {
		if n > 1 && s.pending == 0 {
			return true
		}
	}
	return false
}
