// The accessibility rules that axe can check automatically.

import axe from 'axe-core'

/** Those of WCAG 2.2 AA, and the best practices of axe. */
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']

/** Checks the page in a tab; returns the results of axe by outcome: `violations`, `passes`, `incomplete`. */
export async function checkAccessibility(tab) {
  await tab.evaluate(axe.source)
  return tab.evaluate((values) => window.axe.run(document, { runOnly: { type: 'tag', values } }), RULES)
}

/** A rule, and the elements that break it. */
export function describeResult({ id, nodes }) {
  return `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(' ')}`
}
