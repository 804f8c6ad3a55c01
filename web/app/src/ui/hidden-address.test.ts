// @vitest-environment happy-dom
import { expect, it } from 'vitest'
import { hideAddress, isAddressHidden } from './hidden-address.ts'

it('a tab follows the switch in another tab', () => {
  localStorage.setItem('watchfire:hides-address', 'yes')
  expect(isAddressHidden.value).toBe(false)
  dispatchEvent(new Event('storage'))
  expect(isAddressHidden.value).toBe(true)
  hideAddress(false)
  dispatchEvent(new Event('storage'))
  expect(isAddressHidden.value).toBe(false)
})
