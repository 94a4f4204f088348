package token

import (
	"bytes"
	"errors"
	"fmt"
)

// build makes the tokenizer that f describes, or says what of it cannot be
// done exactly.
func (f *file) build() (*Tokenizer, error) {
	t := &Tokenizer{chars: unicodeTables(), ignoreMerges: f.Model.IgnoreMerges, cache: new(wordCache)}
	var err error
	if t.normalizers, err = f.Normalizer.normalizers(t.chars); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	byteLevel := false
	if t.steps, byteLevel, err = f.PreTokenizer.splitters(t.chars); err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	if err := f.Model.check(byteLevel); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if t.vocab, err = f.Model.readVocab(byteLevel); err != nil {
		return nil, fmt.Errorf("model: vocab: %w", err)
	}
	if err := t.findByteIDs(); err != nil {
		return nil, fmt.Errorf("model: vocab: %w", err)
	}
	pairs, cuts, err := f.Model.readMerges(t)
	if err != nil {
		return nil, fmt.Errorf("model: merges: %w", err)
	}
	if cuts != nil {
		t.steps = append(t.steps, cuts)
	}
	if err := t.addTokens(f.Added); err != nil {
		return nil, fmt.Errorf("added_tokens: %w", err)
	}
	if t.decoder, err = f.Decoder.decoder(t.vocab); err != nil {
		return nil, fmt.Errorf("decoder: %w", err)
	}
	t.encodings.New = func() any { return &encoding{Tokenizer: t, merger: merger{pairs: pairs}} }
	return t, nil
}

func (m *model) check(byteLevel bool) error {
	switch {
	case m.Type != "BPE" && (m.Type != "" || m.merges == nil):
		return fmt.Errorf("type %q: only BPE is exact here (FromSugarme takes others, inexactly)", m.Type)
	case m.vocab == nil || m.merges == nil:
		return errors.New("vocab or merges missing")
	case m.Dropout != nil && *m.Dropout != 0:
		return errors.New("dropout makes ids random: set it to null")
	case m.ContinuingSubwordPrefix != "" || m.EndOfWordSuffix != "":
		return errors.New("continuing_subword_prefix and end_of_word_suffix are not supported")
	case !byteLevel && !m.ByteFallback:
		return errors.New("neither a ByteLevel pre-tokenizer nor byte_fallback: characters outside the vocabulary would become unknown")
	}
	return nil
}

func (m *model) readVocab(byteLevel bool) (*vocab, error) {
	v := newVocab(bytes.Count(m.vocab, []byte{':'}), byteLevel)
	j := &jsonScanner{data: m.vocab}
	return v, j.object(func(key []byte) error {
		id, err := j.id()
		if err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
		if !v.add(key, id) {
			return fmt.Errorf("%q: this token or its id %d is there twice", key, id)
		}
		return nil
	})
}

// findByteIDs finds the tokens that stand for single bytes, and refuses a
// vocabulary without one that valid UTF-8 can need.
func (t *Tokenizer) findByteIDs() error {
	for b := range t.byteIDs {
		id, ok := t.vocab.lookup([]byte{byte(b)}, false)
		if !t.vocab.levels {
			id, ok = t.vocab.id(fmt.Appendf(nil, "<0x%02X>", b))
		}
		if inUTF8 := b != 0xC0 && b != 0xC1 && b < 0xF5; !ok && inUTF8 {
			return fmt.Errorf("no token for byte %#02x: it would be dropped or unknown", b)
		}
		t.byteIDs[b] = id
	}
	return nil
}

// readMerges reads merges in either form, "a b" or ["a", "b"], and, if the
// model is not byte-level, finds where words can be cut.
func (m *model) readMerges(t *Tokenizer) (*pairTable, *cutter, error) {
	j := &jsonScanner{data: m.merges}
	read, atMost := j.merge, bytes.Count(m.merges, []byte{','})+1
	if firstElement(m.merges) == '[' {
		read, atMost = j.mergeList, atMost/2
	}
	pairs := newPairTable(atMost)
	var cuts *cutter
	isByte := make(map[int32]bool)
	if !t.vocab.levels && !m.IgnoreMerges {
		cuts = newCutter()
		for _, id := range t.byteIDs {
			isByte[id] = true
		}
	}
	var parts [3][]byte // left, right, both joined
	var ids [3]int32
	rank := uint32(0)
	err := j.array(func() error {
		var err error
		if parts[0], parts[1], err = read(parts[0][:0], parts[1][:0]); err != nil {
			return fmt.Errorf("merge %d: %w", rank, err)
		}
		if bytes.HasPrefix(parts[0], []byte("#version")) {
			return nil // the first line of a merges.txt
		}
		parts[2] = append(append(parts[2][:0], parts[0]...), parts[1]...)
		for i, part := range parts {
			var ok bool
			if ids[i], ok = t.vocab.id(part); !ok {
				return fmt.Errorf("merge %d: %q is not in the vocabulary", rank, part)
			}
		}
		pairs.put(ids[0], ids[1], rank, ids[2])
		rank++
		if isByte[ids[0]] || isByte[ids[1]] {
			cuts = nil // its tokens do not show the characters that it joins
		}
		cuts.add(parts[2])
		return nil
	})
	return pairs, cuts, err
}

// firstElement returns the byte that the first element of a JSON array begins
// with.
func firstElement(array []byte) byte {
	j := &jsonScanner{data: array}
	if j.expect('[') != nil {
		return 0
	}
	return j.peek()
}

// merge reads a merge in the form "a b" and appends its two sides.
func (j *jsonScanner) merge(left, right []byte) (l, r []byte, err error) {
	both, err := j.str()
	if err != nil {
		return nil, nil, err
	}
	a, b, ok := bytes.Cut(both, []byte{' '})
	if !ok || bytes.IndexByte(b, ' ') >= 0 {
		return nil, nil, j.errorf("want two tokens with a space between in %q", both)
	}
	return append(left, a...), append(right, b...), nil
}

// mergeList reads a merge in the form ["a", "b"] and appends its two sides.
func (j *jsonScanner) mergeList(left, right []byte) (l, r []byte, err error) {
	n := 0
	err = j.array(func() error {
		s, err := j.str()
		switch n++; n {
		case 1:
			left = append(left, s...)
		case 2:
			right = append(right, s...)
		}
		return err
	})
	if err == nil && n != 2 {
		err = j.errorf("want two tokens, not %d", n)
	}
	return left, right, err
}
