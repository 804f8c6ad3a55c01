import type { PageFile } from './site.ts'

interface FilePickerProps {
  label: string
  isDisabled: boolean
  onPick: (files: PageFile[]) => void
}

/** A button that asks the browser for files. The same files can be picked again. */
export function FilePicker({ label, isDisabled, onPick }: FilePickerProps) {
  return (
    <label class="button quiet picker">
      <input
        type="file"
        multiple
        disabled={isDisabled}
        onChange={({ currentTarget }) => {
          const files = filesOf(currentTarget.files)
          currentTarget.value = ''
          onPick(files)
        }}
      />
      <span>{label}</span>
    </label>
  )
}

/** The files of a list, such as a picker's or the clipboard's, under their own names. */
export function filesOf(list: FileList | null | undefined): PageFile[] {
  return [...(list ?? [])].map((file) => ({ path: file.webkitRelativePath || file.name, blob: file }))
}
