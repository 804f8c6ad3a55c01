// The accessibility rules that axe can check automatically.

import axe from 'axe-core'

/** Those of WCAG 2.2 AA, and the best practices of axe. */
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']

/** Parts of PDFs that axe cannot judge: words without colour above their picture, and a canvas without a size that measures letters. */
const DRAWN_ELSEWHERE = ['.pdf-text', '.hiddenCanvasElement']

/** Checks the page in a tab; returns the results of axe by outcome: `violations`, `passes`, `incomplete`. */
export async function checkAccessibility(tab) {
  await tab.evaluate(axe.source)
  return tab.evaluate(({ values, exclude }) => window.axe.run({ exclude }, { runOnly: { type: 'tag', values } }), {
    values: RULES,
    exclude: DRAWN_ELSEWHERE,
  })
}

/** A rule, and the elements that break it. */
export function describeResult({ id, nodes }) {
  return `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(' ')}`
}
