// @vitest-environment happy-dom
import { expect, it } from 'vitest'
import { EMPTY_DRAFT } from './draft.ts'
import { firstDraft, keepDraft } from './draft-store.ts'

it('a live page that is to begin empty is the draft again after a reload', () => {
  const draft = { ...EMPTY_DRAFT, liveTitle: 'Harbour log' }
  expect(keepDraft(draft)).toBe(true)
  expect(firstDraft()).toEqual({ draft, hadFiles: false })
  keepDraft(EMPTY_DRAFT)
  expect(firstDraft()).toEqual({ draft: EMPTY_DRAFT, hadFiles: false })
})
