package jinja

import (
	"fmt"
	"strings"
	"time"
)

func (st *state) now() time.Time {
	if st.options.Now.IsZero() {
		return time.Now()
	}
	return st.options.Now
}

// formatTime is Python's strftime in the C locale, for a time without a zone:
// Python's datetime.now() has none.
func formatTime(b *strings.Builder, t time.Time, layout string) {
	for i := 0; i < len(layout); i++ {
		if layout[i] != '%' || i+1 == len(layout) {
			b.WriteByte(layout[i])
			continue
		}
		i++
		unpadded := layout[i] == '-' && i+1 < len(layout)
		if unpadded {
			i++
		}
		s, ok := timeField(t, layout[i])
		if !ok {
			fail("the strftime directive %%%c is not supported", layout[i])
		}
		if unpadded {
			if s = strings.TrimLeft(s, "0 "); s == "" {
				s = "0"
			}
		}
		b.WriteString(s)
	}
}

func timeField(t time.Time, c byte) (string, bool) {
	switch c {
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 'j':
		return fmt.Sprintf("%03d", t.YearDay()), true
	case 'w':
		return fmt.Sprint(int(t.Weekday())), true
	case 'u':
		return fmt.Sprint((int(t.Weekday())+6)%7 + 1), true
	case 'U':
		return fmt.Sprintf("%02d", (t.YearDay()+6-int(t.Weekday()))/7), true
	case 'W':
		return fmt.Sprintf("%02d", (t.YearDay()+6-(int(t.Weekday())+6)%7)/7), true
	case 'G', 'V':
		year, week := t.ISOWeek()
		if c == 'G' {
			return fmt.Sprint(year), true
		}
		return fmt.Sprintf("%02d", week), true
	case 'z', 'Z':
		return "", true
	case '%', 'n', 't':
		return strings.NewReplacer("n", "\n", "t", "\t").Replace(string(c)), true
	}
	i := strings.IndexByte("YmdHMSypIbhBaAeFTDRcxX", c)
	if i < 0 {
		return "", false
	}
	layouts := strings.Split("2006|01|02|15|04|05|06|PM|03|Jan|Jan|January|Mon|Monday|_2|2006-01-02|15:04:05|01/02/06|15:04|"+
		"Mon Jan _2 15:04:05 2006|01/02/06|15:04:05", "|")
	return t.Format(layouts[i]), true
}
