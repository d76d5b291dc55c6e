"""Extensions of `multicell` beyond its paper: joint scheduling, block fading, standard path loss, other learning."""
