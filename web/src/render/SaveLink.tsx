import type { SavedFile } from '../save/index.ts'
import { files as words } from '../words/files.ts'
import { percentOf, percentText } from '../words/index.ts'
import { useSaving, type Saving } from './saving.ts'

interface SaveLinkProps {
  file: SavedFile
  strong?: boolean
}

// Fetched when a file is shown, so that a click finds it here: choosing a place wants a click that is fresh.
const saves = import('../save/index.ts')
saves.catch(() => undefined)

/** Saves a file to the disk of its reader. */
export function SaveLink({ file, strong = false }: SaveLinkProps) {
  const { name, size } = file
  const { saving, click } = useSaving(async (progress, heavy) => (await saves).saveFile(file, progress, { heavy }), [name])
  return (
    <button
      type="button"
      class={strong ? 'strong' : ''}
      aria-label={words(saving.kind === 'saving' ? 'stopSaving' : 'saveOne', { name })}
      title={saving.kind === 'failed' ? saving.reason : saving.kind === 'heavy' ? words('heavyWhy') : undefined}
      onClick={click}
    >
      {savingText(saving, size, words('save'))}
    </button>
  )
}

/** What a button that saves says; `idle` is what it says at rest. */
export function savingText(saving: Saving, bytes: number, idle: string): string {
  switch (saving.kind) {
    case 'idle':
      return idle
    case 'saving':
      return saving.bytes === 0 ? words('saving') : words('savingAt', { percent: percentText(percentOf(saving.bytes, bytes)) })
    case 'ended':
      return saving.how === 'saved' ? words('saved') : idle
    case 'heavy':
      return words('heavy')
    case 'failed':
      return words('notSaved')
  }
}
