package finding

import "testing"

func TestNearest(t *testing.T) {
	commands := []string{"init", "join", "images", "lint", "version"}
	for _, tc := range []struct {
		word string
		want string
	}{
		{word: "vesion", want: "version"},
		{word: "int", want: "init"},
		{word: "initt", want: "init"},
		{word: "lint", want: "lint"},
		{word: "image", want: "images"},
		{word: "upgrade", want: ""},
		{word: "x", want: ""},
		{word: "", want: ""},
	} {
		if got := Nearest(tc.word, commands); got != tc.want {
			t.Errorf("Nearest(%q) = %q, want %q", tc.word, got, tc.want)
		}
	}
}
