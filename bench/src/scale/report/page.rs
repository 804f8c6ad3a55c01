use super::{Account, Table};

/// A story as a page.
pub fn page(account: &Account) -> String {
    let mut text = format!("# {}\n\n", account.title);
    text += &format!(
        "Written by `{}` on {}; it took {} s. Machine: {}.\n\n![The chart of this \
         page]({}.svg)\n\n",
        account.command, account.date, account.seconds, account.machine, account.story
    );
    if !account.marks.is_empty() {
        text += "| mark | measured | asked | |\n|---|---:|---:|---|\n";
        for mark in &account.marks {
            text += &format!(
                "| {} | {} | {} | {} |\n",
                mark.what,
                mark.measured(),
                mark.asked(),
                mark.verdict()
            );
        }
        text.push('\n');
    }
    if !account.figures.is_empty() {
        text += "| figure | |\n|---|---:|\n";
        for figure in &account.figures {
            text += &format!("| {} | {} |\n", figure.what, figure.value);
        }
        text.push('\n');
    }
    for table in &account.tables {
        text += &table_of(table);
    }
    text += "## How it is measured\n\n";
    for sentence in &account.method {
        text += &format!("- {sentence}\n");
    }
    text
}

fn table_of(table: &Table) -> String {
    let mut text = format!("## {}\n\n| {} |\n|---|", table.title, table.heads.join(" | "));
    text += &"---:|".repeat(table.heads.len().saturating_sub(1));
    text.push('\n');
    for row in &table.rows {
        text += &format!("| {} |\n", row.join(" | "));
    }
    text.push('\n');
    text
}
