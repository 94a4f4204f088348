package jinja

// An expr is a node of an expression; a stmt is one of a body.
type (
	expr any
	stmt any
)

type (
	constExpr struct{ value Value }
	nameExpr  struct{ name string }
	nsRefExpr struct{ name, attr string } // a target: ns.attr
	tupleExpr struct{ items []expr }
	listExpr  struct{ items []expr }
	dictExpr  struct{ keys, values []expr }
	condExpr  struct{ test, yes, no expr } // no may be nil
	logicExpr struct {
		or          bool
		left, right expr
	}
	binaryExpr struct {
		op          kind
		left, right expr
	}
	notExpr  struct{ x expr }
	signExpr struct {
		op kind
		x  expr
	}
	concatExpr  struct{ items []expr }
	compareExpr struct {
		first expr
		ops   []kind
		rest  []expr
	}
	attrExpr struct {
		x    expr
		name string
	}
	itemExpr  struct{ x, index expr }
	sliceExpr struct{ x, low, high, step expr } // the bounds may be nil
	callExpr  struct {
		fn   expr
		args callArgs
	}
	filterExpr struct {
		x    expr // nil: the body of a filter block
		name string
		args callArgs
		line int
	}
	testExpr struct {
		x    expr
		name string
		args callArgs
		line int
	}
)

// callArgs are the arguments of a call, filter or test.
type callArgs struct {
	pos   []expr
	names []string
	named []expr
	star  expr // *args, or nil
	stars expr // **kwargs, or nil
}

type (
	dataStmt  struct{ text string }
	printStmt struct {
		x    expr
		line int
	}
	ifStmt struct {
		tests  []expr
		bodies [][]stmt
		orElse []stmt
		line   int
	}
	forStmt struct {
		target    expr
		iter      expr
		test      expr // nil without a filter
		recursive bool
		body      []stmt
		orElse    []stmt
		line      int
	}
	setStmt struct {
		target, value expr
		line          int
	}
	setBlock struct {
		target expr
		filter expr // nil without one
		body   []stmt
		line   int
	}
	macroStmt struct {
		name string
		sig  signature
		body []stmt
		line int
	}
	callBlock struct {
		call *callExpr
		sig  signature
		body []stmt
		line int
	}
	filterBlock struct {
		filter expr
		body   []stmt
		line   int
	}
	withStmt struct {
		targets, values []expr
		body            []stmt
		line            int
	}
	generationStmt struct {
		body []stmt
		line int
	}
	breakStmt    struct{ line int }
	continueStmt struct{ line int }
)

// A signature is a macro's parameters; the defaults belong to the last ones.
type signature struct {
	params   []string
	defaults []expr
}
