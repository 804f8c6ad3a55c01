export interface Cid { readonly text: string }
