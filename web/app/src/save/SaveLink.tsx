import type { SavedFile } from './index.ts'
import { files as text } from '../messages/files.ts'
import { percentOf, percentText } from '../messages/index.ts'
import { useSaving, type Saving } from './use-saving.ts'

interface SaveLinkProps {
  file: SavedFile
}

// Imported when a file is shown, because a file picker opens only in direct response to a click.
const saves = import('./index.ts')
saves.catch(() => undefined)

/** A button that saves a file to disk, and the reason when that fails. */
export function SaveLink({ file }: SaveLinkProps) {
  const { name, size } = file
  const { saving, click } = useSaving(async (progress, heavy) => (await saves).saveFile(file, progress, { heavy }), [name])
  return (
    <>
      <button type="button" aria-label={text(saving.kind === 'saving' ? 'stopSaving' : 'saveOne', { name })} onClick={click}>
        {savingText(saving, size, text('save'))}
      </button>
      <SavingProblem saving={saving} />
    </>
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
