// The rules of WCAG 2.2 AA that axe can check automatically, and the names that a screen reader says.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { checkAccessibility, describeResult } from '../lib/accessibility.mjs'
import { skipInShortRun } from '../lib/whole.mjs'
import { visitContents, visitViews } from './views.mjs'

const CONTROLS = new Set([
  'button',
  'link',
  'textbox',
  'radio',
  'checkbox',
  'combobox',
  'progressbar',
  'img',
  'image',
  'Iframe',
  'switch',
  'log',
  'dialog',
  'region',
])

for (const { name, options, themes, skip = false } of [
  { name: 'in the light and the dark theme', options: {}, themes: ['light', 'dark'], skip: skipInShortRun },
  { name: 'on a phone', options: { viewport: { width: 390, height: 780 }, isMobile: true, hasTouch: true }, themes: ['light'] },
]) {
  test(`no view breaks an accessibility rule or has a control without a name ${name}`, { skip }, async (t) => {
    const broken = []
    const checkTheme = async (tab, where) => {
      const { violations, passes, incomplete } = await checkAccessibility(tab)
      assert(passes.length > 10, `only ${passes.length} rules apply to ${where}`)
      // A contrast that axe cannot compute would hide a faint text.
      const undecided = incomplete.filter(({ id }) => id === 'color-contrast')
      broken.push(...[...violations, ...undecided].map((each) => `${where}: ${describeResult(each)}`))
    }
    const checkView = async ({ tab }, where) => {
      const colours = new Set()
      for (const colorScheme of themes) {
        await tab.emulateMedia({ colorScheme: /** @type {'light' | 'dark'} */ (colorScheme) })
        colours.add(await tab.evaluate(colourOfText))
        await checkTheme(tab, `${where}, ${colorScheme}`)
      }
      assert.equal(colours.size, themes.length, `the theme of ${where} does not change`)
      broken.push(...(await namelessOf(tab)).map((what) => `${where}: ${what}`))
      if (name === 'on a phone') broken.push(...(await tab.evaluate(smallControls)).map((what) => `${where}: ${what}`))
    }
    await visitViews(t, options, checkView)
    await visitContents(t, options, checkView)
    assert.deepEqual(broken, [])
  })
}

/** The colour of the text, once no colour changes any more. Runs in the page. */
async function colourOfText() {
  const { color } = getComputedStyle(document.documentElement)
  const changes = document.getAnimations().filter((animation) => animation instanceof CSSTransition)
  await Promise.all(changes.map((change) => change.finished.catch(() => {})))
  return color
}

/** Controls that a finger may miss: less than 44 pixels high or wide. A link in the text of a page is as high as its line. Runs in the page. */
function smallControls() {
  const controls = [...document.querySelectorAll('a[href], button, input, textarea, select, summary')]
  // The label of an input that is drawn by its label alone can be pressed too.
  const pressed = controls.map((control) => control.closest('label') ?? control)
  return pressed
    .filter((element) => element.checkVisibility() && !element.matches('.prose a, .skip'))
    .map((element) => ({ element, box: element.getBoundingClientRect() }))
    .filter(({ box }) => Math.min(box.width, box.height) < 43.9)
    .map(({ element, box }) => `${box.width.toFixed()} × ${box.height.toFixed()}: ${element.outerHTML.slice(0, 100)}`)
}

/** The controls and pictures without an accessible name, by the tree of the browser. A view has a title, and one first heading. */
async function namelessOf(tab) {
  const session = await tab.context().newCDPSession(tab)
  const { nodes } = await session.send('Accessibility.getFullAXTree')
  await session.detach()
  const nameless = nodes.filter(({ ignored, role, name }) => !ignored && CONTROLS.has(role?.value) && !name?.value)
  const hasTitle = nodes.some(({ role, name }) => role?.value === 'RootWebArea' && name?.value)
  const headings = await tab.locator('h1').count()
  return [
    ...nameless.map(({ role }) => `a nameless ${role.value}`),
    ...(hasTitle ? [] : ['no title']),
    ...(headings === 1 ? [] : [`${headings} first-level headings`]),
  ]
}
