package jinja

import "strconv"

// A Dict is a Python dict: keys in order of insertion. A key that is set again
// keeps its place. The zero value is empty and ready for use; a Dict must not
// be changed once it was handed to Render.
type Dict struct {
	entries []entry
	index   map[string]int // from indexFrom entries on; by hash of the key
}

type entry struct {
	key   Value
	value Value
}

// indexFrom is the size from which looking up in a map beats comparing.
const indexFrom = 9

// NewDict returns an empty dict with room for n entries.
func NewDict(n int) *Dict { return &Dict{entries: make([]entry, 0, n)} }

// Len returns the number of entries.
func (d *Dict) Len() int { return len(d.entries) }

// Set sets the entry of a string key.
func (d *Dict) Set(key string, v Value) { d.set(String(key), v) }

// Get returns the value of a string key.
func (d *Dict) Get(key string) (Value, bool) {
	i := d.findString(key)
	if i < 0 {
		return nil, false
	}
	return d.entries[i].value, true
}

// At returns the entry at position i as a string key and its value; ok is
// false when the key is not a string.
func (d *Dict) At(i int) (key string, v Value, ok bool) {
	key, ok = text(d.entries[i].key)
	return key, d.entries[i].value, ok
}

func (d *Dict) set(key, v Value) {
	hash := hashKey(key)
	if i := d.find(key, hash); i >= 0 {
		d.entries[i].value = v
		return
	}
	d.entries = append(d.entries, entry{key, v})
	if d.index != nil {
		d.index[hash] = len(d.entries) - 1
	} else if len(d.entries) == indexFrom {
		d.index = make(map[string]int, 2*indexFrom)
		for i, e := range d.entries {
			d.index[hashKey(e.key)] = i
		}
	}
}

func (d *Dict) get(key Value) (Value, bool) {
	if s, ok := text(key); ok {
		return d.Get(s)
	}
	if i := d.find(key, hashKey(key)); i >= 0 {
		return d.entries[i].value, true
	}
	return nil, false
}

func (d *Dict) find(key Value, hash string) int {
	if d.index != nil {
		if i, ok := d.index[hash]; ok {
			return i
		}
		return -1
	}
	if s, ok := text(key); ok {
		return d.findString(s)
	}
	for i := range d.entries {
		if hashKey(d.entries[i].key) == hash {
			return i
		}
	}
	return -1
}

func (d *Dict) findString(key string) int {
	if d.index != nil {
		if i, ok := d.index["s"+key]; ok {
			return i
		}
		return -1
	}
	for i := range d.entries {
		if s, ok := d.entries[i].key.(String); ok {
			if string(s) == key {
				return i
			}
		} else if m, ok := d.entries[i].key.(markup); ok && string(m) == key {
			return i
		}
	}
	return -1
}

// hashKey maps equal keys, and only those, to the same string: 1, 1.0 and
// true are one key in Python.
func hashKey(key Value) string {
	switch k := key.(type) {
	case String:
		return "s" + string(k)
	case markup:
		return "s" + string(k)
	case noneType:
		return "n"
	case *undefined:
		return "u"
	case Bool, Int, *BigInt, Float:
		return "#" + numberKey(k)
	case *tuple:
		h := "("
		for _, item := range k.items {
			s := hashKey(item)
			h += strconv.Itoa(len(s)) + ":" + s
		}
		return h
	}
	fail("unhashable type: '%s'", typeName(key))
	return ""
}

// merge returns a new dict with b's entries set over a's.
func merge(a, b *Dict) *Dict {
	d := NewDict(len(a.entries) + len(b.entries))
	for _, from := range []*Dict{a, b} {
		for _, e := range from.entries {
			d.set(e.key, e.value)
		}
	}
	return d
}
