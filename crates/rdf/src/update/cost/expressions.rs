//! What expressions do for each solution, and gates in them.

use oxrdf::{Literal, NamedNode, Variable};
use spargebra::algebra::{Expression, Function};

use super::terms::literal_bytes;
use super::{BYTES_PER_STEP, Estimate};
use crate::update::meter::{Gate, Guard};
use crate::update::{UpdateError, regex};

/// Functions that only inspect their arguments cost this fraction per byte of what others cost.
const LOOKED_AT: usize = 16;

/// Cost of an expression per solution.
#[derive(Clone, Copy)]
struct ExpressionCost {
    /// Solutions of patterns within, at least 1.
    solutions: usize,
    /// Bytes of the value.
    bytes: usize,
    /// Bytes that functions within build or inspect.
    worked: usize,
    /// Functions, operators and terms.
    parts: usize,
}

impl ExpressionCost {
    /// Of a term.
    fn term(bytes: usize) -> Self {
        Self { solutions: 1, bytes, worked: 0, parts: 1 }
    }

    /// Of both together.
    fn with(self, other: Self) -> Self {
        Self {
            solutions: self.solutions.saturating_mul(other.solutions),
            bytes: self.bytes.saturating_add(other.bytes),
            worked: self.worked.saturating_add(other.worked),
            parts: self.parts.saturating_add(other.parts),
        }
    }

    /// Of so many copies. One that is only a term costs no more.
    fn times(self, copies: usize) -> Self {
        let repeated = |count: usize| count.saturating_sub(1).saturating_mul(copies.max(1)).saturating_add(1);
        Self {
            solutions: repeated(self.solutions),
            bytes: self.bytes,
            worked: self.worked.saturating_mul(copies.max(1)),
            parts: repeated(self.parts),
        }
    }

    /// Of a function that builds its value.
    fn made(self) -> Self {
        Self { worked: self.worked.saturating_add(self.bytes), ..self }
    }

    /// Of a function that only inspects its arguments.
    fn looking(self) -> Self {
        Self { worked: self.worked.saturating_add(self.bytes / LOOKED_AT), ..self }
    }
}

impl Estimate<'_> {
    /// Solutions of a filter that may be copied to all patterns since there were so many leaves.
    pub(super) fn filtered(
        &mut self,
        filter: &mut Expression,
        solutions: usize,
        leaves: usize,
    ) -> Result<usize, UpdateError> {
        let (tree, copies) = (self.tree, self.leaves - leaves);
        let solutions = self.computed(filter, solutions)?.0;
        self.tree.repeat(tree, copies);
        Ok(solutions)
    }

    /// An expression that is evaluated for each of `solutions`: evaluations including those of
    /// patterns within, and bytes of a value.
    pub(super) fn computed(
        &mut self,
        expression: &mut Expression,
        solutions: usize,
    ) -> Result<(usize, usize), UpdateError> {
        let cost = self.expression(expression)?;
        if self.repeating > 0 {
            self.watch(expression, cost.parts.saturating_add(cost.worked / BYTES_PER_STEP));
        }
        let solutions = solutions.saturating_mul(cost.solutions);
        self.computed_bytes = self.computed_bytes.saturating_add(solutions.saturating_mul(cost.worked));
        self.steps = self.steps.saturating_add(solutions.saturating_mul(cost.parts));
        Ok((solutions, cost.bytes))
    }

    /// Calls the meter before each evaluation of an expression, which may be of constants only. What is
    /// counted of it here is only one evaluation of the `EXISTS` around it.
    fn watch(&mut self, expression: &mut Expression, units: usize) {
        use Expression as E;
        match expression {
            // The evaluator moves its sides apart.
            E::And(left, right) => {
                self.watch(left, units);
                self.watch(right, units);
            }
            E::NamedNode(_) | E::Literal(_) | E::Variable(_) | E::Bound(_) | E::Exists(_) => {}
            _ => self.put_work_gate(expression, units),
        }
    }

    fn expression(&mut self, expression: &mut Expression) -> Result<ExpressionCost, UpdateError> {
        let tree_bytes = self.tree.bytes;
        let cost = self.expression_cost(expression)?;
        self.follow(tree_bytes);
        Ok(cost)
    }

    fn expression_cost(&mut self, expression: &mut Expression) -> Result<ExpressionCost, UpdateError> {
        use Expression as E;
        self.tree.add(match expression {
            E::NamedNode(node) | E::FunctionCall(Function::Custom(node), _) => node.as_str().len(),
            E::Literal(literal) => literal_bytes(literal),
            E::Variable(variable) | E::Bound(variable) => variable.as_str().len(),
            _ => 0,
        });
        Ok(match expression {
            // A term that is written out is copied for each solution, which the meter does not see.
            E::NamedNode(node) => ExpressionCost::term(node.as_str().len()).looking(),
            E::Literal(literal) => ExpressionCost::term(literal_bytes(literal)).looking(),
            // Patterns that give it a value were looked at before.
            E::Variable(variable) => ExpressionCost::term(self.takes(variable, 0)),
            E::Bound(variable) => {
                self.takes(variable, 0);
                ExpressionCost::term(8)
            }
            E::Exists(pattern) => {
                // Its types are found on their own.
                let (groups, steps) = (std::mem::take(&mut self.groups), self.steps);
                self.repeating += 1;
                let solutions = self.pattern(pattern)?;
                self.repeating -= 1;
                self.groups = groups;
                // Solutions without values do not call the meter.
                let units = self.steps - steps;
                if units > 0 {
                    self.put_work_gate(expression, units);
                }
                ExpressionCost { solutions, ..ExpressionCost::term(8) }
            }
            E::FunctionCall(function, arguments) => self.call(function, arguments)?,
            E::UnaryPlus(inner) | E::UnaryMinus(inner) | E::Not(inner) => self.all([inner.as_mut()])?,
            E::Or(left, right)
            | E::And(left, right)
            | E::Equal(left, right)
            | E::SameTerm(left, right)
            | E::Greater(left, right)
            | E::GreaterOrEqual(left, right)
            | E::Less(left, right)
            | E::LessOrEqual(left, right)
            | E::Add(left, right)
            | E::Subtract(left, right)
            | E::Multiply(left, right)
            | E::Divide(left, right) => self.all([left.as_mut(), right.as_mut()])?,
            E::If(condition, one, other) => {
                let tree = self.tree;
                let condition = self.expression(condition)?;
                self.tree.repeat(tree, 2);
                self.all([one.as_mut(), other.as_mut()])?.with(condition).made()
            }
            E::In(value, values) => {
                let (tree, followed) = (self.tree, self.followed_bytes);
                let value = self.expression(value)?.times(values.len());
                self.tree.repeat(tree, values.len());
                let again = (self.followed_bytes - followed).saturating_mul(values.len().saturating_sub(1));
                self.followed_bytes = self.followed_bytes.saturating_add(again);
                self.all(values)?.with(value)
            }
            E::Coalesce(values) => self.all(values)?.made(),
        })
    }

    /// Patterns within multiply. A value is at most as long as all its parts, plus the name of a
    /// type.
    fn all<'e>(
        &mut self,
        expressions: impl IntoIterator<Item = &'e mut Expression>,
    ) -> Result<ExpressionCost, UpdateError> {
        let mut all = ExpressionCost::term(128);
        for expression in expressions {
            all = all.with(self.expression(expression)?);
        }
        Ok(all)
    }

    fn call(&mut self, function: &Function, arguments: &mut [Expression]) -> Result<ExpressionCost, UpdateError> {
        // Each is visited once: they can be nested.
        let costs = arguments.iter_mut().map(|argument| self.expression(argument)).collect::<Result<Vec<_>, _>>()?;
        let all = costs.iter().fold(ExpressionCost::term(128), |all, cost| all.with(*cost));
        let bytes_of = |argument: usize| costs.get(argument).map_or(0, |cost| cost.bytes).saturating_add(1);
        Ok(match (function, &mut *arguments) {
            (Function::Regex, [text, pattern, flags @ ..]) => {
                self.put_match_gate(text, pattern, flags.first(), false)?;
                // The gate counts what is matched.
                all.looking()
            }
            // Each byte can become a replacement, and each reference in it (`$1`) as long as the
            // text.
            (Function::Replace, [text, pattern, replacement, flags @ ..]) => {
                let is_repeated = regex::is_searched_again(pattern, flags.first());
                self.put_match_gate(text, pattern, flags.first(), is_repeated)?;
                let replacement_bytes = match replacement {
                    Expression::Literal(literal) => literal.value().len() + 1,
                    _ => bytes_of(2),
                };
                ExpressionCost { bytes: bytes_of(0).saturating_mul(replacement_bytes), ..all }.made()
            }
            // A byte becomes three; a character in another case can be three.
            (Function::EncodeForUri | Function::UCase | Function::LCase, _) => {
                ExpressionCost { bytes: all.bytes.saturating_mul(3), ..all }.made()
            }
            (
                Function::Lang
                | Function::LangMatches
                | Function::Datatype
                | Function::IsIri
                | Function::IsBlank
                | Function::IsLiteral
                | Function::IsNumeric
                | Function::Contains
                | Function::StrStarts
                | Function::StrEnds
                | Function::StrLen,
                _,
            ) => all.looking(),
            _ => all.made(),
        })
    }

    /// Puts a gate before a text that is matched.
    fn put_match_gate(
        &mut self,
        text: &mut Expression,
        pattern: &Expression,
        flags: Option<&Expression>,
        is_repeated: bool,
    ) -> Result<(), UpdateError> {
        let steps = regex::compile_steps(pattern);
        self.budget.take(steps)?;
        self.compiled_steps = self.compiled_steps.saturating_add(steps);
        self.tree.compile_steps = self.tree.compile_steps.saturating_add(steps);
        let compiled_bytes = regex::compiled_bytes(pattern, flags)?;
        self.put_gate(text, Guard::Match { compiled_bytes, is_repeated });
        Ok(())
    }

    /// Puts a gate before a value.
    pub(super) fn put_gate(&mut self, value: &mut Expression, guard: Guard) {
        let name = self.gate(guard);
        let behind = std::mem::replace(value, Expression::Bound(Variable::new_unchecked("x")));
        *value = Expression::FunctionCall(Function::Custom(name), vec![behind]);
    }

    /// Puts a gate before an evaluation, which takes so many steps.
    fn put_work_gate(&mut self, expression: &mut Expression, units: usize) {
        let gate = Expression::FunctionCall(Function::Custom(self.gate(Guard::Work { units })), Vec::new());
        let never = Expression::Literal(Literal::from(false));
        let behind = std::mem::replace(expression, never.clone());
        *expression = Expression::If(Box::new(gate), Box::new(behind), Box::new(never));
    }

    /// The name of a new gate.
    fn gate(&mut self, guard: Guard) -> NamedNode {
        let name = NamedNode::new_unchecked(format!("penates:/gate/{}", self.gates.len()));
        self.tree.add(name.as_str().len());
        self.gates.push(Gate { name: name.clone(), guard });
        name
    }
}
