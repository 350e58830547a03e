package main

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// allowance is one line of allow.txt: kind, place, up to which number, and why. A place may have the wildcards of
// path.Match.
type allowance struct {
	kind, where string
	most        int
	why         string
	used        bool
}

type allowances []*allowance

func readAllowed(file string) (allowances, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var list allowances
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		words := strings.Fields(line)
		if len(words) < 4 || !slices.Contains([]string{"file", "func", "package", "circle", "takers"}, words[0]) {
			return nil, fmt.Errorf("%s:%d: want file, func, package, circle or takers, a place, a number, and a reason", file, number)
		}
		most, err := strconv.Atoi(words[2])
		if err != nil {
			return nil, fmt.Errorf("%s:%d: want a number after the place: %w", file, number, err)
		}
		list = append(list, &allowance{kind: words[0], where: words[1], most: most, why: strings.Join(words[3:], " ")})
	}
	return list, nil
}

// reason is why it may be as large as it is, or empty.
func (a allowances) reason(o over) string {
	for _, each := range a {
		if ok, err := path.Match(each.where, o.where); each.kind == o.kind && ok && err == nil && o.size <= each.most {
			each.used = true
			return each.why
		}
	}
	return ""
}
