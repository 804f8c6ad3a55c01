import type { DirectoryFile } from '../ui/site.ts'
import { files as text } from '../messages/files.ts'
import { savingText, SavingProblem } from './SaveLink.tsx'
import { useSaving } from './use-saving.ts'

interface SaveAllProps {
  /** The name for the folder or the zip file. */
  name: string
  files: readonly DirectoryFile[]
  /** Whether all files and their sizes are known. */
  isReady: boolean
}

const saves = import('./index.ts')
saves.catch(() => undefined)

const CAN_PICK_FOLDER = 'showDirectoryPicker' in globalThis

/** Saves all files of a page: into a folder where the browser can write one, or as one zip file. */
export function SaveAll({ name, files, isReady }: SaveAllProps) {
  const named = () => files.map(({ path, ...file }) => ({ ...file, name: path }))
  const bytes = files.reduce((sum, { size }) => sum + size, 0)
  const folder = useSaving(
    async (progress) => {
      const { saveFolder, saveSource } = await saves
      return saveFolder(name, named().map(saveSource), progress)
    },
    [files],
  )
  const cid = files.find(({ streamed }) => streamed !== undefined)?.streamed?.cid
  const zip = useSaving(
    async (progress, heavy) => {
      const { saveZip } = await saves
      return saveZip(name, cid ?? 'page', named(), progress, { heavy })
    },
    [files],
  )
  return (
    <p class="saves">
      {CAN_PICK_FOLDER && (
        <button type="button" disabled={!isReady} onClick={folder.click}>
          {savingText(folder.saving, bytes, text('saveFolder'))}
        </button>
      )}
      <button type="button" class={CAN_PICK_FOLDER ? 'quiet' : ''} disabled={!isReady} onClick={zip.click}>
        {savingText(zip.saving, bytes, text('saveZip'))}
      </button>
      <SavingProblem saving={folder.saving} />
      <SavingProblem saving={zip.saving} />
    </p>
  )
}
