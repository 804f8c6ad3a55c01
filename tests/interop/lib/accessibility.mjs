// The accessibility rules that axe can check automatically.

import axe from 'axe-core'

/** Those of WCAG 2.2 AA, and the best practices of axe. */
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']

/** Parts of PDFs that axe cannot judge: words without colour above their picture, and a canvas without a size that measures letters. */
const DRAWN_ELSEWHERE = ['.pdf-text', '.hiddenCanvasElement']

/** Checks the page in a tab; returns the results of axe by outcome: `violations`, `passes`, `incomplete`. */
export async function checkAccessibility(tab) {
  await tab.evaluate(axe.source)
  // axe cannot judge a text that is below the bar. A person scrolls it into view.
  await tab.evaluate(placeBar, 'static')
  const results = await tab.evaluate(({ values, exclude }) => window.axe.run({ exclude }, { runOnly: { type: 'tag', values } }), {
    values: RULES,
    exclude: DRAWN_ELSEWHERE,
  })
  await tab.evaluate(placeBar, '')
  return results
}

/** Places the bar that stays at the end of the window at the end of its form. Runs in the page. */
function placeBar(position) {
  const bar = /** @type {HTMLElement | null} */ (document.querySelector('.composer > .bar:last-child'))
  if (bar !== null) bar.style.position = position
}

/** A rule, and the elements that break it. */
export function describeResult({ id, nodes }) {
  return `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(' ')}`
}
