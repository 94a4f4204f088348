package jinja

// walkNames calls visit for each name that an expression reads, in order,
// until visit returns false; it returns false then.
func walkNames(x expr, visit func(name string) bool) bool {
	if n, ok := x.(*nameExpr); ok {
		return visit(n.name)
	}
	for _, child := range children(x) {
		if child != nil && !walkNames(child, visit) {
			return false
		}
	}
	return true
}

// children returns the parts of an expression, in order of evaluation; some may be nil.
func children(x expr) []expr {
	switch x := x.(type) {
	case *tupleExpr:
		return x.items
	case *listExpr:
		return x.items
	case *concatExpr:
		return x.items
	case *dictExpr:
		var out []expr
		for i := range x.keys {
			out = append(out, x.keys[i], x.values[i])
		}
		return out
	case *condExpr:
		return []expr{x.test, x.yes, x.no}
	case *logicExpr:
		return []expr{x.left, x.right}
	case *binaryExpr:
		return []expr{x.left, x.right}
	case *notExpr:
		return []expr{x.x}
	case *signExpr:
		return []expr{x.x}
	case *compareExpr:
		return append([]expr{x.first}, x.rest...)
	case *attrExpr:
		return []expr{x.x}
	case *itemExpr:
		return []expr{x.x, x.index}
	case *sliceExpr:
		return []expr{x.x, x.low, x.high, x.step}
	case *callExpr:
		return append([]expr{x.fn}, x.args.all()...)
	case *filterExpr:
		return append([]expr{x.x}, x.args.all()...)
	case *testExpr:
		return append([]expr{x.x}, x.args.all()...)
	}
	return nil
}

func (a *callArgs) all() []expr {
	out := append(append([]expr{}, a.pos...), a.named...)
	return append(out, a.star, a.stars)
}

// reads reports whether a body reads name before it assigns it, looking into
// every scope within: so Jinja2 decides whether a macro takes a caller and
// whether a loop needs its loop variable.
func reads(body []stmt, name string) bool {
	w := &useFinder{name: name}
	w.body(body)
	return w.found
}

type useFinder struct {
	name        string
	found, over bool
}

func (w *useFinder) body(body []stmt) {
	for _, st := range body {
		w.stmt(st)
	}
}

func (w *useFinder) exprs(list ...expr) {
	for _, x := range list {
		if x == nil || w.over {
			continue
		}
		walkNames(x, func(name string) bool {
			if name == w.name {
				w.found, w.over = true, true
			}
			return !w.over
		})
	}
}

func (w *useFinder) target(target expr) {
	switch t := target.(type) {
	case *nameExpr:
		w.assign(t.name)
	case *tupleExpr:
		for _, item := range t.items {
			w.target(item)
		}
	}
}

func (w *useFinder) assign(name string) {
	if name == w.name {
		w.over = true
	}
}

func (w *useFinder) signature(sig signature) {
	for _, p := range sig.params {
		w.assign(p)
	}
	w.exprs(sig.defaults...)
}

func (w *useFinder) stmt(st stmt) {
	switch st := st.(type) {
	case *printStmt:
		w.exprs(st.x)
	case *ifStmt:
		for i, body := range st.bodies {
			w.exprs(st.tests[i])
			w.body(body)
		}
		w.body(st.orElse)
	case *forStmt:
		w.target(st.target)
		w.exprs(st.iter)
		w.body(st.body)
		w.body(st.orElse)
		w.exprs(st.test)
	case *setStmt:
		w.target(st.target)
		w.exprs(st.value)
	case *setBlock:
		w.target(st.target)
		w.exprs(st.filter)
		w.body(st.body)
	case *macroStmt:
		w.signature(st.sig)
		w.body(st.body)
	case *callBlock:
		w.exprs(st.call)
		w.signature(st.sig)
		w.body(st.body)
	case *filterBlock:
		w.body(st.body)
		w.exprs(st.filter)
	case *withStmt:
		for _, t := range st.targets {
			w.target(t)
		}
		w.exprs(st.values...)
		w.body(st.body)
	case *generationStmt:
		w.body(st.body)
	}
}
