package lint

import "fmt"

// Fix applies the fixes of what check finds until nothing is left that has one: fixing one thing can show another. It
// returns what it has fixed, and what is left. A fix that the text does not allow, such as one in an anchor that is
// used elsewhere, stays a finding that says so.
func Fix(check func() ([]Finding, error)) (fixed, left []Finding, err error) {
	refused := map[string]error{}
	for {
		if left, err = check(); err != nil {
			return nil, nil, err
		}
		count := len(fixed)
		for i, f := range left {
			reason := refused[f.key()]
			if f.Fix == nil || reason != nil {
				left[i].explain(reason)
				continue
			}
			if reason = f.Fix(); reason != nil {
				refused[f.key()] = reason
				left[i].explain(reason)
				continue
			}
			fixed = append(fixed, f)
		}
		if len(fixed) == count {
			return fixed, left, nil
		}
	}
}

func (f *Finding) explain(reason error) {
	if reason != nil {
		f.Fixable, f.Do = false, fmt.Sprintf("%s; by hand, since --fix cannot: %v", f.Do, reason)
	}
}

// key tells a finding from others while line numbers change.
func (f *Finding) key() string {
	return f.Rule + "\x00" + f.File + "\x00" + f.Object + "\x00" + f.Message
}
