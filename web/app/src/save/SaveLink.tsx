import type { SavedFile } from './index.ts'
import { files as text } from '../messages/files.ts'
import { percentOf, percentText } from '../messages/index.ts'
import { useSaving, type Saving } from './use-saving.ts'

interface SaveLinkProps {
  file: SavedFile
  /** Whether the button shows an arrow in place of the word, as in a list of files. */
  isIcon?: boolean
}

// Imported when a file is shown, because a file picker opens only in direct response to a click.
const saves = import('./index.ts')
saves.catch(() => undefined)

/** A button that saves a file to disk, and the reason when that fails. */
export function SaveLink({ file, isIcon = false }: SaveLinkProps) {
  const { name, size } = file
  const { saving, click } = useSaving(async (progress, heavy) => (await saves).saveFile(file, progress, { heavy }), [name])
  const label = text(saving.kind === 'saving' ? 'stopSaving' : 'saveOne', { name })
  const words = savingText(saving, size, text('save'))
  const isAtRest = isIcon && words === text('save')
  return (
    <>
      <button type="button" class={isAtRest ? 'quiet icon' : ''} aria-label={label} title={isIcon ? label : undefined} onClick={click}>
        {isAtRest ? <Arrow /> : words}
      </button>
      <SavingProblem saving={saving} />
    </>
  )
}

function Arrow() {
  return (
    <svg width="18" height="18" viewBox="0 0 18 18" fill="none" stroke="currentColor" stroke-width="1.75" aria-hidden="true">
      <path d="M9 2.5v8.5m-3.5-3.5L9 11l3.5-3.5M3 13v2.5h12V13" stroke-linecap="round" stroke-linejoin="round" />
    </svg>
  )
}

/** Says why nothing is saved, or not yet. A tooltip would need a mouse. */
export function SavingProblem({ saving }: { saving: Saving }) {
  if (saving.kind !== 'failed' && saving.kind !== 'heavy') return null
  return (
    <span class="saving-problem" role="alert">
      {saving.kind === 'heavy' ? text('memoryNeeded') : text('notSavedBecause', { reason: saving.reason })}
    </span>
  )
}

/** The label of a save button; `idle` is its label at rest. */
export function savingText(saving: Saving, bytes: number, idle: string): string {
  switch (saving.kind) {
    case 'idle':
      return idle
    case 'saving':
      return saving.bytes === 0 ? text('saving') : text('savingAt', { percent: percentText(percentOf(saving.bytes, bytes)) })
    case 'ended':
      return saving.how === 'saved' ? text('saved') : idle
    case 'heavy':
      return text('saveAnyway')
    case 'failed':
      return text('notSaved')
  }
}
