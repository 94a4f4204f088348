package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// maxBits bounds the integers that a template may compute: far beyond what one
// prints, small enough that nothing stalls.
const maxBits = 1 << 16

// normInt returns i as an Int if it fits; i belongs to the result.
func normInt(i *big.Int) Value {
	if i.IsInt64() {
		return Int(i.Int64())
	}
	if i.BitLen() > maxBits {
		fail("an integer of %d bits is more than is supported", i.BitLen())
	}
	return &BigInt{i}
}

// asBig returns the integer value of a bool or int.
func asBig(v Value) (*big.Int, bool) {
	switch v := v.(type) {
	case Bool:
		if v {
			return big.NewInt(1), true
		}
		return new(big.Int), true
	case Int:
		return big.NewInt(int64(v)), true
	case *BigInt:
		return v.i, true
	}
	return nil, false
}

// asInt returns the integer value of a bool or int that fits 64 bits.
func asInt(v Value) (int64, bool) {
	switch v := v.(type) {
	case Int:
		return int64(v), true
	case Bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

func isNumber(v Value) bool {
	switch v.(type) {
	case Bool, Int, *BigInt, Float:
		return true
	}
	return false
}

// asFloat converts a number as Python's float() does.
func asFloat(v Value) float64 {
	switch v := v.(type) {
	case Float:
		return float64(v)
	case Int:
		return float64(v)
	case Bool:
		if v {
			return 1
		}
		return 0
	case *BigInt:
		f, _ := new(big.Float).SetInt(v.i).Float64()
		if math.IsInf(f, 0) {
			fail("int too large to convert to float")
		}
		return f
	}
	fail("must be real number, not %s", typeName(v))
	return 0
}

// numberKey spells a number so that equal numbers are spelled alike.
func numberKey(v Value) string {
	if f, ok := v.(Float); ok {
		if f != Float(math.Trunc(float64(f))) || math.IsInf(float64(f), 0) {
			return formatFloat(float64(f))
		}
		i, _ := big.NewFloat(float64(f)).Int(nil)
		return i.String()
	}
	i, _ := asBig(v)
	return i.String()
}

// formatFloat is Python's repr of a float.
func formatFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	s := strconv.FormatFloat(f, 'e', -1, 64)
	mantissa, exp, _ := strings.Cut(s, "e")
	e, _ := strconv.Atoi(exp)
	if e < -4 || e >= 16 {
		sign := "+"
		if e < 0 {
			sign, e = "-", -e
		}
		digits := strconv.Itoa(e)
		if len(digits) < 2 {
			digits = "0" + digits
		}
		return mantissa + "e" + sign + digits
	}
	s = strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// cmpNumbers compares two numbers exactly; ok is false for a NaN.
func cmpNumbers(a, b Value) (c int, ok bool) {
	x, xInt := asInt(a)
	y, yInt := asInt(b)
	if xInt && yInt {
		return cmpInt(x, y), true
	}
	fa, aFloat := a.(Float)
	fb, bFloat := b.(Float)
	if aFloat && bFloat {
		return cmpFloat(float64(fa), float64(fb))
	}
	if aFloat && (math.IsNaN(float64(fa)) || math.IsInf(float64(fa), 0)) {
		return cmpFloat(float64(fa), 0)
	}
	if bFloat && (math.IsNaN(float64(fb)) || math.IsInf(float64(fb), 0)) {
		return cmpFloat(0, float64(fb))
	}
	return exact(a).Cmp(exact(b)), true
}

func exact(v Value) *big.Rat {
	if f, ok := v.(Float); ok {
		return new(big.Rat).SetFloat64(float64(f))
	}
	i, _ := asBig(v)
	return new(big.Rat).SetInt(i)
}

func cmpInt(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func cmpFloat(a, b float64) (int, bool) {
	switch {
	case a < b:
		return -1, true
	case a > b:
		return 1, true
	}
	return 0, a == b
}

// arithmetic applies an operator to two numbers.
func arithmetic(op kind, a, b Value) Value {
	x, okX := a.(Int)
	y, okY := b.(Int)
	if okX && okY {
		if v, ok := smallArithmetic(op, int64(x), int64(y)); ok {
			return v
		}
	}
	_, aFloat := a.(Float)
	_, bFloat := b.(Float)
	if aFloat || bFloat || op == "/" {
		return floatArithmetic(op, a, b)
	}
	i, _ := asBig(a)
	j, _ := asBig(b)
	return bigArithmetic(op, i, j)
}

func smallArithmetic(op kind, x, y int64) (Value, bool) {
	const half = 1 << 31
	switch op {
	case "+":
		if s := x + y; (s > x) == (y > 0) {
			return Int(s), true
		}
	case "-":
		if s := x - y; (s < x) == (y > 0) {
			return Int(s), true
		}
	case "*":
		if x > -half && x < half && y > -half && y < half {
			return Int(x * y), true
		}
	case "%":
		if x >= 0 && y > 0 {
			return Int(x % y), true
		}
	case "//":
		if x >= 0 && y > 0 {
			return Int(x / y), true
		}
	}
	return nil, false
}

func bigArithmetic(op kind, i, j *big.Int) Value {
	z := new(big.Int)
	switch op {
	case "+":
		return normInt(z.Add(i, j))
	case "-":
		return normInt(z.Sub(i, j))
	case "*":
		return normInt(z.Mul(i, j))
	case "//", "%":
		if j.Sign() == 0 {
			fail("integer division or modulo by zero")
		}
		m := new(big.Int)
		z.DivMod(i, j, m)
		if m.Sign() != 0 && j.Sign() < 0 { // Go's Euclidean remainder is never negative; Python's has j's sign
			z.Sub(z, big.NewInt(1))
			m.Add(m, j)
		}
		if op == "%" {
			return normInt(m)
		}
		return normInt(z)
	}
	return power(i, j)
}

func power(i, j *big.Int) Value {
	if j.Sign() < 0 {
		return floatArithmetic("**", normInt(new(big.Int).Set(i)), normInt(new(big.Int).Set(j)))
	}
	if i.BitLen() > 1 && (!j.IsInt64() || j.Int64() > maxBits || int64(i.BitLen())*j.Int64() > 2*maxBits) {
		fail("a power this large is not supported")
	}
	if i.BitLen() <= 1 { // 0, 1, -1: only whether j is 0 or odd matters
		j = big.NewInt(int64(j.Sign()) * (2 - int64(j.Bit(0))))
	}
	return normInt(new(big.Int).Exp(i, j, nil))
}

func floatArithmetic(op kind, a, b Value) Value {
	if op == "/" {
		if i, ok := asBig(a); ok {
			if j, ok := asBig(b); ok && j.Sign() != 0 {
				return divideInts(i, j)
			}
		}
	}
	x, y := asFloat(a), asFloat(b)
	switch op {
	case "+":
		return Float(x + y)
	case "-":
		return Float(x - y)
	case "*":
		return Float(x * y)
	case "**":
		return floatPower(x, y)
	}
	if y == 0 {
		fail("float division by zero")
	}
	if op == "/" {
		return Float(x / y)
	}
	div, mod := floatDivMod(x, y)
	if op == "%" {
		return Float(mod)
	}
	return Float(div)
}

// divideInts is true division, correctly rounded whatever the sizes.
func divideInts(i, j *big.Int) Value {
	f, _ := new(big.Rat).SetFrac(i, j).Float64()
	if math.IsInf(f, 0) {
		fail("integer division result too large for a float")
	}
	if f == 0 && i.Sign() == 0 {
		f = 0
	}
	return Float(f)
}

func floatPower(x, y float64) Value {
	if x == 0 && y < 0 {
		fail("0.0 cannot be raised to a negative power")
	}
	if x < 0 && y != math.Trunc(y) {
		fail("complex numbers are not supported")
	}
	f := math.Pow(x, y)
	if math.IsInf(f, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0) {
		fail("numerical result out of range")
	}
	return Float(f)
}

// floatDivMod is Python's divmod for floats.
func floatDivMod(x, y float64) (div, mod float64) {
	mod = math.Mod(x, y)
	div = (x - mod) / y
	if mod != 0 {
		if (y < 0) != (mod < 0) {
			mod += y
			div--
		}
	} else {
		mod = math.Copysign(0, y)
	}
	if div == 0 {
		return math.Copysign(0, x/y), mod
	}
	floor := math.Floor(div)
	if div-floor > 0.5 {
		floor++
	}
	return floor, mod
}
