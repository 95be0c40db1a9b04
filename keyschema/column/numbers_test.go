package column

import (
	"math"
	"math/bits"
	"testing"
)

func TestWidthAndSlopeNumbers(t *testing.T) {
	last := int64(-1)
	for number := range int64(2000) {
		w, ok := WidthOfNumber(number)
		if !ok {
			continue
		}
		if got := w.Number(); got != number {
			t.Fatalf("width %+v has number %d, not %d", w, got, number)
		}
		last = number
	}
	if last != 64*widthSteps {
		t.Fatalf("the last width has number %d", last)
	}
	for low := range uint8(65) {
		for base := uint8(1); base <= radixMax; base += 2 {
			w := Width{low, base}
			back, ok := WidthOfNumber(w.Number())
			if fits := base == 1 || int(low)+bits.Len8(base) <= 64; ok != fits || ok && back != w {
				t.Fatalf("width %+v comes back as %+v, %t", w, back, ok)
			}
		}
	}
	for _, s := range []int64{0, 1, -1, 255, 256, -511, 512, 1024, math.MinInt64, 511 << 54, -(257 << 40), 4096 * 3} {
		number, ok := SlopeNumber(s)
		if back, ok2 := SlopeOfNumber(number); !ok || !ok2 || back != s {
			t.Fatalf("slope %d has number %d, %t, and comes back as %d, %t", s, number, ok, back, ok2)
		}
	}
	if _, ok := SlopeNumber(1025); ok {
		t.Fatal("1025 has more than nine bits")
	}
}
