package finding

import "testing"

func TestCount(t *testing.T) {
	for _, tc := range []struct {
		n    int
		of   string
		want string
	}{
		{0, "warning", "0 warnings"},
		{1, "warning", "1 warning"},
		{2, "warning", "2 warnings"},
		{1, "address", "1 address"},
		{3, "address", "3 addresses"},
	} {
		if got := Count(tc.n, tc.of); got != tc.want {
			t.Errorf("%d %s: got %q, want %q", tc.n, tc.of, got, tc.want)
		}
	}
}
